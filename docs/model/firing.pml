/* The ledger protocol for one schedule: every scheduled time takes effect once,
 * whoever stalls, dies, or is repeated, and what was claimed is settled.
 * README.md says what is covered, what is not, and which script each step is.
 *
 *   NI         scheduled times, 0 to NI-1
 *   SCHEDS     schedulers           CONS  consumers
 *   NOLEDGER   consumers run whatever is delivered
 *   NORETAIN   the queue forgets a task that it completed
 *   NODUP      the queue delivers no task twice at a time
 *   CRASHES, LOSSES, ROLLBACKS, EDITS, ZOMBIES   how often each may happen
 * Broken rules, to see that they are needed:
 *   NOMARK     begin does not raise the high-water mark
 *   NOPROMISE  an edit forgets the claim that it meets
 *   ADOPTANY   begin adopts any firing above the mark
 *   NOAUDIT    there is no auditor
 *   NOOWED     a re-drive counts before its task is enqueued
 *   NOACK      a run whose report is refused as stale is handed back, not acknowledged
 */
#ifndef NI
#define NI 2
#endif
#ifndef SCHEDS
#define SCHEDS 2
#endif
#ifndef CONS
#define CONS 2
#endif
#ifndef CRASHES
#define CRASHES 0
#endif
#ifndef LOSSES
#define LOSSES 0
#endif
#ifndef ROLLBACKS
#define ROLLBACKS 0
#endif
#ifndef EDITS
#define EDITS 0
#endif
#ifndef ZOMBIES
#define ZOMBIES 0
#endif
#define REDRIVES 1            /* allowed; the product allows three, the model loses one task at most */
#define NT (NI * 2)           /* task IDs: a firing's own, and that of its re-drive */
#define TASK(i, n) ((i) * 2 + (n))

#define NOBODY 9              /* a token that nobody holds any more */

/* A record of the ledger. */
#define NONE 0
#define INTENT 1
#define ENQUEUED 2
#define RUNNING 3

/* A verdict. OTHER stands for every verdict by which a time does not fire. */
#define FIRED 1
#define OTHER 2

/* A task. */
#define ABSENT 0
#define PENDING 1
#define ACTIVE 2
#define RETRY 3
#define COMPLETED 4

typedef Firing {
  byte state;
  byte owner;                 /* consumer that holds the token of the attempt, or NOBODY */
  bit live;                   /* its lease has not run out */
  bit again;                  /* it was claimed more than once */
  bit owed;                   /* the task of its re-drive may not have been enqueued */
  byte redrives;
}
typedef Shard {
  byte pending;                /* the pending scheduled time; NI: none */
  byte mark;                  /* times below it have their verdict: the high-water mark, plus one */
  byte holder;                /* of the claim: 0, a scheduler, or NOBODY */
  byte verdict[NI];
  Firing fir[NI];
}

Shard shard;                   /* the shard as it is */
byte task[NT];                /* the queue, on another node */
byte at[SCHEDS + CONS];       /* by process: the task that a consumer works on, plus one */
byte effects[NI];
byte excused[NI];             /* attempts that lost their lease, or died, while their effect was possible and not reported */
byte crashes, losses, rollbacks, edits, zombies;
byte looked;                  /* the firing that the auditor decides about, plus one; 0: an attempt began since */
bit storm = 1;                /* faults go on; until it ends everybody may stall anywhere, for any time */
hidden byte k;
#if ROLLBACKS > 0
Shard kept;                   /* what the replica holds */
bit copied;
#endif
/* What a rollback costs: nothing when the queue keeps what it completed and delivers it once. */
#if defined(NORETAIN) || !defined(NODUP)
#define FORGOTTEN rollbacks
#else
#define FORGOTTEN 0
#endif

inline forget_claim() {       /* this scheduler drops its token */
  if :: shard.holder == me -> shard.holder = NOBODY :: else fi;
#if ROLLBACKS > 0
  if :: kept.holder == me -> kept.holder = NOBODY :: else fi;
#endif
}
inline forget_run() {         /* this consumer drops the token of its attempt */
  d_step {
    k = 0;
    do
    :: k < NI ->
       if :: shard.fir[k].owner == me -> shard.fir[k].owner = NOBODY :: else fi;
#if ROLLBACKS > 0
       if :: kept.fir[k].owner == me -> kept.fir[k].owner = NOBODY :: else fi;
#endif
       k++
    :: else -> break
    od;
    k = 0 }
}
inline give(n, v) {           /* a verdict, once and for all, in the step that passes the time */
  if
  :: n >= shard.mark ->
     assert(n == shard.mark && shard.verdict[n] == 0);
     assert(v == FIRED || effects[n] == 0 || rollbacks > 0);
     shard.verdict[n] = v; shard.mark = n + 1
  :: else
  fi
}
inline keep_intent() {        /* an intent may be in its queue already: it fires */
  k = shard.pending;
  if :: k < NI && k >= shard.mark && shard.fir[k].state != NONE -> give(k, FIRED) :: else fi;
  k = 0
}
inline push(t) {              /* asynq's enqueue: a taken ID is a conflict, which counts as done */
  d_step { if :: task[t] == ABSENT -> task[t] = PENDING :: else fi }
}
inline drop(n) {              /* the record goes: settled, or withdrawn */
  shard.fir[n].state = NONE; shard.fir[n].owner = 0; shard.fir[n].live = 0;
  shard.fir[n].again = 0; shard.fir[n].owed = 0; shard.fir[n].redrives = 0
}

#define dies atomic { (crashes < CRASHES && storm) -> crashes++ }
#define FIRE 1
#define PASS 2
#define MOVE 3
/* claim.lua, the worker's decision, asynq's enqueue, complete.lua */
active [SCHEDS] proctype Scheduler() {
  byte i, n, what;
  byte me = _pid + 1;
end:
  do
  :: atomic { (shard.pending < NI && (shard.holder == 0 || shard.holder == NOBODY || storm)) ->
       i = shard.pending; shard.holder = me; n = shard.fir[i].redrives;
       if
       :: i < shard.mark || shard.fir[i].state > INTENT -> what = MOVE    /* kind A: it has its verdict, or runs */
       :: i >= shard.mark && shard.fir[i].state == INTENT -> what = FIRE; shard.fir[i].again = 1
       :: i >= shard.mark && shard.fir[i].state == NONE -> what = FIRE; shard.fir[i].state = INTENT
       fi;
       if :: true :: what == FIRE -> what = PASS fi }                   /* the policies decide, once per claim */
retry:
     if
     :: what == FIRE -> push(TASK(i, n))
     :: what != FIRE
     :: dies -> what = 0
     fi;
     atomic {
       if
       :: what == 0 || shard.holder != me || shard.pending != i -> skip      /* dead; STALE or ALREADY */
       :: what == PASS && shard.holder == me && shard.pending == i && shard.fir[i].state == INTENT && shard.fir[i].again -> what = FIRE; goto retry   /* MUSTFIRE */
       :: else ->
          if
          :: what == PASS -> if :: shard.fir[i].state == INTENT -> drop(i) :: else fi; give(i, OTHER)
          :: else -> give(i, FIRED)
          fi;
          shard.pending = i + 1; shard.holder = 0
       fi;
       forget_claim(); i = 0; n = 0; what = 0 }
  od
}

#define GO 1
#define ACK 2
#define BACK 3
/* asynq's dequeue, begin.lua, the handler, finish.lua, asynq's unfenced completion */
active [CONS] proctype Consumer() {
  byte t, i, answer; bit done;
  byte me = _pid + 1;
end:
  do
  :: atomic {
       if
       :: task[0] == PENDING -> t = 0
       :: task[1] == PENDING -> t = 1
#if NI > 1
       :: task[2] == PENDING -> t = 2
       :: task[3] == PENDING -> t = 3
#endif
#if NI > 2
       :: task[4] == PENDING -> t = 4
       :: task[5] == PENDING -> t = 5
#endif
       fi;
       task[t] = ACTIVE; at[_pid] = t + 1; i = t / 2; answer = GO }
#ifndef NOLEDGER
     atomic {
       if
       :: shard.fir[i].state == NONE ->
          if
          :: i < shard.mark || i < shard.pending -> answer = ACK             /* SETTLED */
#ifdef ADOPTANY
          :: else -> shard.fir[i].state = ENQUEUED
#else
          :: i >= shard.mark && i > shard.pending -> answer = BACK           /* EARLY: the shard forgot what comes before */
          :: i >= shard.mark && i == shard.pending -> shard.fir[i].state = ENQUEUED
#endif
          fi
       :: shard.fir[i].state == RUNNING && shard.fir[i].live -> answer = BACK   /* BUSY */
       :: else
       fi;
       if
       :: answer == GO ->
          if :: shard.fir[i].state == RUNNING && shard.fir[i].owner != NOBODY -> excused[i]++ :: else fi;
          shard.fir[i].state = RUNNING; shard.fir[i].owner = me; shard.fir[i].live = 1; shard.fir[i].owed = 0;
          if :: looked == i + 1 -> looked = 0 :: else fi;
#ifdef ADOPTANY
          give(i, FIRED)
#elif !defined(NOMARK)
          if :: i == shard.pending -> give(i, FIRED) :: else fi
#endif
       :: else
       fi }
#endif
     if
     :: answer == GO ->
        if
        :: atomic { effects[i]++; done = 1;
             assert(effects[i] <= 1 + excused[i] + FORGOTTEN);
             assert(shard.verdict[i] != OTHER || rollbacks > 0) }
        :: dies -> answer = 0
        fi;
        if
        :: atomic { (answer == GO && crashes < CRASHES && storm) -> crashes++; excused[i]++; answer = 0 }
        :: answer == 0
        :: answer == GO ->
#ifndef NOLEDGER
           atomic {
             if
             :: shard.fir[i].state == RUNNING && shard.fir[i].owner == me -> drop(i)
             :: shard.fir[i].state == NONE && i == shard.pending && i >= shard.mark -> give(i, FIRED)   /* its begin is forgotten, and so is the claim */
             :: (shard.fir[i].state == INTENT || shard.fir[i].state == ENQUEUED) && shard.fir[i].owner == 0 ->
                if :: i == shard.pending -> give(i, FIRED) :: else fi; drop(i)                          /* its begin is forgotten */
#ifdef NOACK
             :: shard.fir[i].state != NONE && shard.fir[i].owner != me -> answer = BACK     /* STALE */
#endif
             :: else                                                    /* ALREADY; STALE, and the handler succeeded */
             fi };
#endif
           if :: answer == GO -> answer = ACK :: else fi
        fi
     :: else
     fi;
     atomic {
       if
       :: answer == ACK && task[t] == ACTIVE ->
#ifdef NORETAIN
          task[t] = ABSENT
#else
          if :: done -> task[t] = COMPLETED :: else -> task[t] = ABSENT fi
#endif
       :: answer == BACK && task[t] == ACTIVE -> task[t] = RETRY
       :: else
       fi;
       at[_pid] = 0; forget_run(); t = 0; i = 0; answer = 0; done = 0 }
  od
}

#ifndef NOAUDIT
#define PUSH 1
#define LOOK 2      /* and found nothing */
#define SETTLE 3
/* audit.lua, asynq's inspector, then enqueue and mark.lua, redrive.lua, or settle.lua */
active proctype Auditor() {
  byte i, n, what;
end:
  do
  :: atomic { n = shard.fir[i].redrives;
       if
       :: shard.fir[i].state == NONE || (shard.fir[i].state == RUNNING && shard.fir[i].live) -> skip
       :: shard.fir[i].state == INTENT && i >= shard.mark -> skip         /* whoever claims it again enqueues it */
       :: shard.fir[i].state == INTENT && i < shard.mark -> what = PUSH
       :: shard.fir[i].state > INTENT && shard.fir[i].owed -> what = PUSH
       :: else ->
          if
          :: task[TASK(i, n)] == COMPLETED -> what = SETTLE; looked = i + 1
          :: task[TASK(i, n)] == ABSENT -> what = LOOK; looked = i + 1
          :: else
          fi
       fi;
       if :: what == 0 -> i = (i + 1) % NI; n = 0; goto end :: else fi }
     if
     :: what == LOOK || what == SETTLE ->
        atomic {
          if
          :: what == 0 || looked != i + 1 || shard.fir[i].state == NONE || (shard.fir[i].state == RUNNING && shard.fir[i].live) -> what = 0
          :: else ->
             if
             :: what == SETTLE -> if :: i == shard.pending -> give(i, FIRED) :: else fi; drop(i); what = 0
             :: shard.fir[i].redrives != n -> what = 0
             :: else ->
                assert(n < REDRIVES);                                   /* else the firing is lost */
                n++; shard.fir[i].redrives = n; what = PUSH;
#ifndef NOOWED
                shard.fir[i].owed = 1
#endif
             fi
          fi }
     :: else
     fi;
     if
     :: what == PUSH ->
        if :: true :: dies -> what = 0 fi;
        if
        :: what == PUSH -> push(TASK(i, n));
           if :: true :: dies -> what = 0 fi
        :: else
        fi;
        atomic {                                                        /* mark.lua */
          if
          :: what == PUSH && shard.fir[i].state != NONE ->
             shard.fir[i].owed = 0;
             if :: shard.fir[i].state == INTENT -> shard.fir[i].state = ENQUEUED :: else fi
          :: else
          fi }
     :: else
     fi;
     atomic { i = (i + 1) % NI; n = 0; what = 0; looked = 0 }
  od
}
#else
active proctype Auditor() { do :: looked = 0 od }
#endif

#define worked(t) (at[SCHEDS] == t + 1 || at[SCHEDS + CONS - 1] == t + 1)
#if NI == 1
#define none(s) (task[0] != s && task[1] != s)
#elif NI == 2
#define none(s) (task[0] != s && task[1] != s && task[2] != s && task[3] != s)
#else
#define none(s) (task[0] != s && task[1] != s && task[2] != s && task[3] != s && task[4] != s && task[5] != s)
#endif
#ifdef NODUP
#define again_from(t) (!worked(t))
#else
#define again_from(t) (!worked(t) || storm)
#endif
#define recover(t) d_step { (task[t] == ACTIVE && again_from(t)) -> task[t] = PENDING } \
  :: d_step { (storm && losses < LOSSES && task[t] != ABSENT && task[t] != COMPLETED) -> losses++; task[t] = ABSENT }
#define expire(n) d_step { (shard.fir[n].live && shard.fir[n].owner == NOBODY) -> shard.fir[n].live = 0 } \
  :: d_step { (shard.fir[n].live && shard.fir[n].owner != NOBODY && storm && zombies < ZOMBIES) -> zombies++; shard.fir[n].live = 0 }
#if NI == 1
#define overdue (late(0))
#elif NI == 2
#define overdue (late(0) || late(1))
#else
#define overdue (late(0) || late(1) || late(2))
#endif
#define late(n) (shard.fir[n].live && shard.fir[n].owner == NOBODY)
/* asynq's recoverer and forwarder, lost tasks, the end of leases */
active proctype Broker() {
end:
  do
  :: recover(0) :: recover(1)
#if NI > 1
  :: recover(2) :: recover(3) :: expire(1)
#endif
#if NI > 2
  :: recover(4) :: recover(5) :: expire(2)
#endif
  :: expire(0)
  :: d_step { (none(PENDING) && !none(RETRY) && !overdue) ->            /* those that waited, in turn */
       k = 0;
       do
       :: k < NT -> if :: task[k] == RETRY -> task[k] = PENDING :: else fi; k++
       :: else -> break
       od;
       k = 0 }
  od
}
#ifdef LIVE
active proctype Weather() { storm = 0 }
#endif

#if EDITS > 0
/* what an operator read, then put.lua: the times up to the new pending one are superseded */
active proctype Operator() {
  byte seen, m;
end:
  do
  :: edits < EDITS && storm ->
     seen = shard.pending;
     if :: m = 1 :: m = 2 :: m = 3 fi;
     atomic {
       if
       :: shard.pending == seen && m > seen && m <= NI && m >= shard.mark && shard.pending < NI ->   /* else RACE */
          edits++;
#ifndef NOPROMISE
          keep_intent();
#endif
          shard.holder = 0;
          seen = shard.pending;
          do
          :: seen < m -> if :: seen >= shard.mark -> give(seen, OTHER) :: else fi; seen++
          :: else -> break
          od;
          shard.pending = m
       :: else -> edits++
       fi;
       seen = 0; m = 0 }
  od
}
#endif

#if ROLLBACKS > 0
inline copy(to, from) {
  d_step {
    to.pending = from.pending; to.mark = from.mark; to.holder = from.holder;
    k = 0;
    do
    :: k < NI ->
       to.verdict[k] = from.verdict[k];
       to.fir[k].state = from.fir[k].state; to.fir[k].owner = from.fir[k].owner; to.fir[k].live = from.fir[k].live;
       to.fir[k].again = from.fir[k].again; to.fir[k].owed = from.fir[k].owed; to.fir[k].redrives = from.fir[k].redrives;
       k++
    :: else -> break
    od;
    k = 0 }
}
/* a failover to a replica that lagged */
active proctype Failover() {
end:
  do
  :: atomic { (storm && rollbacks < ROLLBACKS && !copied) -> copy(kept, shard); copied = 1 }
  :: atomic { (storm && copied) -> copy(shard, kept); copied = 0; rollbacks++; looked = 0 }
  od
}
#endif

/* What claims and firings come to once the faults have ended. */
#define quiet(t) (task[t] == ABSENT || task[t] == COMPLETED)
#define settled(i) (shard.fir[i].state == NONE && (shard.verdict[i] == OTHER || (shard.verdict[i] == FIRED && effects[i] > 0)) && quiet(TASK(i, 0)) && quiet(TASK(i, 1)))
#if NI == 1
#define all_settled (shard.pending == NI && settled(0))
#elif NI == 2
#define all_settled (shard.pending == NI && settled(0) && settled(1))
#else
#define all_settled (shard.pending == NI && settled(0) && settled(1) && settled(2))
#endif
#ifdef LIVE
ltl live { <>[] all_settled }
#endif
