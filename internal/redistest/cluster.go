package redistest

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/redis/go-redis/v9"
)

const (
	clusterNodes   = 3
	clusterSlots   = 16384
	clusterTimeout = 30 * time.Second
)

// startCluster starts three masters that share the slots evenly, and returns
// their addresses. They end with the test binary.
func startCluster() ([]string, error) {
	root, err := os.MkdirTemp("", "belfry-redistest-cluster-")
	if err != nil {
		return nil, fmt.Errorf("making the cluster's directory: %w", err)
	}
	var addrs []string
	var nodes []*process
	fail := func(err error) ([]string, error) {
		for _, node := range nodes {
			node.end(syscall.SIGKILL)
		}
		_ = os.RemoveAll(root)
		return nil, err
	}
	for i := range clusterNodes {
		dir := filepath.Join(root, strconv.Itoa(i))
		if err := os.Mkdir(dir, 0o700); err != nil {
			return fail(fmt.Errorf("making a node's directory: %w", err))
		}
		args := append(persistence(false), "--cluster-enabled", "yes", "--cluster-node-timeout", "5000")
		port, node, err := launchAnywhere(dir, true, args)
		if err != nil {
			return fail(err)
		}
		nodes = append(nodes, node)
		addrs = append(addrs, address(port))
	}
	ctx, cancel := context.WithTimeout(context.Background(), clusterTimeout)
	defer cancel()
	if err := formCluster(ctx, addrs); err != nil {
		return fail(err)
	}
	for _, node := range nodes {
		endLater(node, root)
	}
	return addrs, nodes[0].ownDir(root)
}

// formCluster gives each node its slots, makes them meet and waits until all
// agree. It does what redis-cli --cluster create does, without redis-cli.
func formCluster(ctx context.Context, addrs []string) error {
	clients := make([]*redis.Client, len(addrs))
	for i, addr := range addrs {
		clients[i] = redis.NewClient(Options(addr))
		defer clients[i].Close()
	}
	for i, client := range clients {
		first, end := clusterSlots*i/len(clients), clusterSlots*(i+1)/len(clients)
		if err := client.ClusterAddSlotsRange(ctx, first, end-1).Err(); err != nil {
			return fmt.Errorf("giving slots to node %s: %w", addrs[i], err)
		}
		// Distinct epochs from the start spare the nodes an election.
		if err := client.Do(ctx, "CLUSTER", "SET-CONFIG-EPOCH", i+1).Err(); err != nil {
			return fmt.Errorf("setting the epoch of node %s: %w", addrs[i], err)
		}
	}
	for _, addr := range addrs[1:] {
		host, port, _ := strings.Cut(addr, ":")
		if err := clients[0].ClusterMeet(ctx, host, port).Err(); err != nil {
			return fmt.Errorf("making %s meet %s: %w", addrs[0], addr, err)
		}
	}
	for i, client := range clients {
		err := poll(ctx, func(ctx context.Context) error { return settled(ctx, client, len(clients)) })
		if err != nil {
			return fmt.Errorf("waiting for node %s: %w", addrs[i], err)
		}
	}
	return nil
}

// settled reports as an error what a node still lacks: another node or a slot.
func settled(ctx context.Context, client *redis.Client, nodes int) error {
	info, err := client.ClusterInfo(ctx).Result()
	if err != nil {
		return fmt.Errorf("asking for the cluster's state: %w", err)
	}
	wants := []string{"cluster_state:ok\r\n", "cluster_slots_ok:" + strconv.Itoa(clusterSlots) + "\r\n",
		"cluster_size:" + strconv.Itoa(nodes) + "\r\n"}
	for _, want := range wants {
		if !strings.Contains(info, want) {
			return fmt.Errorf("no %q in\n%s", want, info)
		}
	}
	slots, err := client.ClusterSlots(ctx).Result()
	if err != nil {
		return fmt.Errorf("asking for the cluster's slots: %w", err)
	}
	if len(slots) != nodes {
		return fmt.Errorf("%d slot ranges known, want %d", len(slots), nodes)
	}
	return nil
}
