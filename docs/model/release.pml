/* Release of one buffered firing. Firing A is open, B is buffered behind it.
 * Two processes run finish(A) (a repeat, or a consumer and the auditor); each
 * may die or stall for ever before it enqueues B. The auditor adopts an intent
 * that nobody enqueued. The queue frees an ID on ack and may deliver twice.
 *
 *   DUP        how often a task is delivered twice
 *   NOAUDIT    there is no auditor
 *   NOLEDGER   consumers run without begin
 */
byte open = 1, buffered = 1, fA = 1, fB = 1;  /* fB: 1 buffered 2 intent 3 enqueued 4 running 5 settled */
byte q = 0, eff = 0, ndup = 0, done = 0;
#ifndef DUP
#define DUP 1
#endif
inline enqueue() { atomic { if :: q == 0 -> q = 1 :: else fi } }

active [2] proctype Finish() {
  bool rel = false;
  atomic {                                             /* the finish script */
    if :: fA == 1 -> fA = 0; open--;
          if :: (buffered > 0 && open == 0) -> buffered--; fB = 2; open++; rel = true :: else fi
       :: else -> rel = (fB == 2)                      /* ALREADY repeats the release */
    fi;
    assert(!(buffered > 0 && open == 0)) }
  if :: skip                                           /* dies here */
     :: rel -> enqueue();
        if :: skip :: atomic { if :: fB == 2 -> fB = 3 :: else fi } fi
     :: !rel
  fi;
  done++
}
#ifndef NOAUDIT
active proctype Audit() {
end:
  do
  :: atomic { (fB == 2 || fB == 3) && q == 0 -> q = 1; fB = 3 }   /* an intent or a lost task: enqueue, mark */
  od
}
#endif
active proctype Redeliver() {
end: do :: atomic { (ndup < DUP && q == 2) -> q = 1; ndup++ } od
}
active [2] proctype Consumer() {
  bool go;
end:
  do
  :: atomic { q == 1 -> q = 2 };
     go = true;
#ifndef NOLEDGER
     atomic { go = false;
       if :: (fB == 2 || fB == 3) -> fB = 4; go = true
          :: fB == 4 -> if :: q == 2 -> q = 1 :: else fi         /* BUSY */
          :: else fi }
#endif
     if :: go -> atomic { eff++; assert(eff <= 1) }
#ifndef NOLEDGER
        atomic { fB = 5; open-- }
#else
        fB = 5
#endif
        atomic { if :: q == 2 -> q = 0 :: else fi }
     :: else -> atomic { if :: (q == 2 && fB == 5) -> q = 0 :: else fi }
     fi
  od
}
active proctype Check() { timeout -> assert(done < 2 || eff == 1) }
