# Two static binaries, nothing else: no shell, no libc, not root.
FROM golang:1.26-bookworm AS build
WORKDIR /src
COPY go.mod go.sum ./
RUN go mod download
COPY . .
RUN CGO_ENABLED=0 go build -trimpath -ldflags='-s -w' -o /out/ ./cmd/worker ./cmd/admin

FROM scratch
COPY --from=build /etc/ssl/certs/ca-certificates.crt /etc/ssl/certs/
COPY --from=build /out/worker /out/admin /usr/local/bin/
USER 65532:65532
ENV BELFRY_HTTP_ADDR=127.0.0.1:8080
EXPOSE 8080
ENTRYPOINT ["/usr/local/bin/worker"]
