/* Channel of shmtensor: segments of cells, claims by process, give-back, pins, at a crash at any step.
 *
 * NS places for segments of K cells each, used again as soon as neither a pin nor a live process's hold keeps them
 * (the ledger itself is ledger.pml's business: here hold, pin and reuse are single steps). Process 0 writes W0 messages,
 * process 1 writes W1 and then reads R1, process 2 reads R2; MAXCRASH of them are killed between any two accesses to
 * shared memory. At the end a newcomer drains what is left. Every statement outside d_step is one access.
 *
 * Properties (assert):
 *   C1  a message is taken at most once, and one that became READY is taken exactly once (by the newcomer at the latest)
 *   C2  a reader that claimed a message finds its pin: what a message names is there until it is held
 *   C3  no cell is touched in a segment that is used again (holds and pins suffice)
 *   C4  of two puts, one ended before the other began, the first is got first, unless a dead reader gave it back
 *   C5  never more than MAXSIZE messages are unfinished (0: no bound)
 *   L1  in the end no pin of a message and no pin of a segment but the head's is left, except what a writer killed
 *       between making a segment's pin and linking it leaves (ghost gap)
 *   and no invalid end state: nobody waits for anybody.
 */
#ifndef K
#define K 1
#endif
#ifndef NS
#define NS 3
#endif
#ifndef W0
#define W0 2
#endif
#ifndef W1
#define W1 1
#endif
#ifndef R1
#define R1 1
#endif
#ifndef R2
#define R2 2
#endif
#ifndef MAXCRASH
#define MAXCRASH 1
#endif
#ifndef FOREIGN
#define FOREIGN 0
#endif
#ifndef MAXSIZE
#define MAXSIZE 0
#endif
#define M (W0 + W1)

#define EMPTY 0
#define WRITING 1
#define READY 2
#define CLAIMED 3
#define DONE 4
#define FINISHED 5
#define TOMB 6

/* a link is number * NS + place; number 0: none */
#define place(l) ((l) % NS)
#define number(l) ((l) / NS)
byte num[NS];                 /* number of the segment at this place, 0: never used */
bool pinned[NS];              /* its pin is pending */
byte nxt[NS]; byte prv[NS]; bool prel[NS];
byte w[NS*K]; byte wo[NS*K];  /* word: state, process */
byte cm[NS*K]; bool ce[NS*K]; /* the cell's message and whether its pin is recorded */
byte h[4*NS];                 /* holds: 1 chain, 2 tail, 4 made it */
byte head, tail;
bool pinm[M];                 /* the message's pin is pending */
bool alive[4];
bool over[4];
byte crashes = 0;
/* ghosts */
byte taken[M]; bool ready[M]; bool back[M]; bool began[M]; bool before[M*M];
bool waiting[M];              /* READY and not claimed */
byte unfinished = 0; bool gap = false;

#define held(s) ((alive[0] && h[s]) || (alive[1] && h[NS+s]) || (alive[2] && h[2*NS+s]) || (alive[3] && h[3*NS+s]))
#define reusable(s) (!pinned[s] && !held(s))
#define HOLD(s, b) h[p*NS+(s)] = h[p*NS+(s)] | (b)
#define DROP(s, b) h[p*NS+(s)] = h[p*NS+(s)] & ~(b)
#define CHECK(l) assert(num[place(l)] == number(l))   /* C3 */

/* hold what lies at the link's place, then look whether the anchor still says the same */
#ifdef BUG_NO_RECHECK
#define STILL(za, zv) true
#else
#define STILL(za, zv) ((za) == (zv))
#endif
inline reach(zlink, zanchor, zwanted, zbit) {
  HOLD(place(zlink), zbit);
  if
  :: d_step { STILL(zanchor, zwanted) -> ok = 1; CHECK(zlink) }
  :: d_step { !STILL(zanchor, zwanted) -> DROP(place(zlink), zbit); ok = 0 }
  fi
}

/* chain[0..nc-1]: held segments from the head on */
inline to_head() {
  do
  :: d_step { nc > 0 && chain[0] == head } -> break
  :: d_step { !(nc > 0 && chain[0] == head) -> l = head;
       do :: nc > 0 -> DROP(place(chain[0]), 1); k = 0; do :: k + 1 < nc -> chain[k] = chain[k+1]; k++ :: else -> break od; nc--;
                       if :: (nc > 0 && chain[0] == l) -> break :: else fi
          :: else -> break od };
     if
     :: nc > 0 -> skip
     :: nc == 0 -> reach(l, head, l, 1); if :: ok == 1 -> d_step { chain[0] = l; nc = 1 } :: else fi
     fi
  od;
  if
  :: !prel[place(chain[0])] -> CHECK(chain[0]);
#ifndef BUG_PREVIOUS_UNHELPED
     d_step { if :: (prv[place(chain[0])] != 0 && num[place(prv[place(chain[0])])] == number(prv[place(chain[0])]))
                    -> pinned[place(prv[place(chain[0])])] = false :: else fi };
#endif
     prel[place(chain[0])] = true
  :: else
  fi
}

inline retire() {
  /* chain[0] is over and has a next; chain[1] is it, held */
  CHECK(chain[0]); CHECK(chain[1]);
#ifdef BUG_TAIL_LATE
  d_step { if :: head == chain[0] -> head = chain[1] :: else fi };
  to_head();
#else
  d_step { if :: tail == chain[0] -> tail = chain[1] :: else fi };
  l = chain[0];
  d_step { if :: head == chain[0] -> head = chain[1]; won = 1 :: else -> won = 0 fi };
#ifdef BUG_PREVIOUS_UNHELPED
  if :: won -> d_step { if :: num[place(l)] == number(l) -> pinned[place(l)] = false :: else fi } :: else fi;
#endif
#endif
}

inline release_pin(c) { pinm[cm[c]] = false }

inline tend(c) {
  if
  :: d_step { (w[c] == CLAIMED && !alive[wo[c]]) ->
#ifndef BUG_NO_GIVEBACK
       w[c] = READY; back[cm[c]] = true; waiting[cm[c]] = true; changed = 1
#endif
       skip }
#ifndef BUG_NO_TOMB
  :: (w[c] == WRITING && !alive[wo[c]]) ->
     if :: ce[c] -> release_pin(c) :: else fi;
     d_step { if :: (w[c] == WRITING) -> w[c] = TOMB; unfinished-- :: else fi }; changed = 1
#endif
#ifndef BUG_DONE_FORGOTTEN
  :: (w[c] == DONE && !alive[wo[c]]) ->
     release_pin(c);
     d_step { if :: (w[c] == DONE) -> w[c] = FINISHED; unfinished-- :: else fi }; changed = 1
#endif
  :: else
  fi
}

/* reads one message if there is one; got: 1 yes, 0 nothing there */
inline get() {
  got = 2;
  do
  :: got != 2 -> break
  :: got == 2 ->
     to_head();
     d_step { passed = 0; busy = 0; x = 0; i = 0; again = 0; changed = 0; finished = 1 };
     do
     :: again || got != 2 -> break
     :: !again && got == 2 && i < K ->
        CHECK(chain[x]);
        d_step { c = place(chain[x]) * K + i; st = w[c] };
        if
        :: st == FINISHED || st == TOMB -> i++
        :: st == EMPTY -> got = 0
        :: st == WRITING || st == CLAIMED || st == DONE ->
           d_step { finished = 0; busy = busy | (1 << c); if :: st == WRITING -> passed = passed | (1 << c) :: else fi; i++ }
        :: st == READY ->
#ifndef BUG_ORDER_UNCHECKED
           k = 0;
           do
           :: k < NS*K && (passed & (1 << k)) && w[k] == READY -> again = 1; break
           :: k < NS*K && !((passed & (1 << k)) && w[k] == READY) -> k++
           :: k == NS*K -> break
           od;
#endif
           if
           :: again
           :: !again ->
              if
              :: d_step { w[c] == READY -> w[c] = CLAIMED; wo[c] = p; m = cm[c]; waiting[m] = false;
                   k = 0; do :: k < M -> assert(!(before[k*M+m] && waiting[k] && !back[k])) /* C4 */; k++ :: else -> break od };
                 assert(pinm[m]);                                   /* C2: receive what it names */
#ifdef BUG_NO_DONE
                 d_step { taken[m]++; assert(taken[m] <= 1) }; release_pin(c);
#else
                 d_step { w[c] = DONE; taken[m]++; assert(taken[m] <= 1) };   /* C1 */
                 release_pin(c);
#endif
                 d_step { w[c] = FINISHED; unfinished-- };
                 got = 1
              :: d_step { w[c] != READY -> again = 1 }
              fi
           fi
        fi
     :: !again && got == 2 && i == K ->
        if
        :: d_step { nxt[place(chain[x])] == 0 -> got = 0 }
        :: d_step { nxt[place(chain[x])] != 0 -> l = nxt[place(chain[x])] };
           if
           :: x + 1 < nc -> ok = 1
           :: else -> reach(l, head, chain[0], 1); if :: ok == 1 -> d_step { chain[nc] = l; nc++ } :: else fi
           fi;
           if
           :: ok == 0 -> again = 1
           :: ok == 1 && x == 0 && finished -> retire(); again = 1
           :: ok == 1 && !(x == 0 && finished) -> d_step { x++; i = 0 }
           fi
        fi
     od;
     if
     :: got == 0 ->
        k = 0;
        do
        :: k < NS*K && (busy & (1 << k)) -> tend(k); k++
        :: k < NS*K && !(busy & (1 << k)) -> k++
        :: k == NS*K -> break
        od;
        if :: changed -> got = 2 :: else fi
     :: else
     fi
  od
}

#define TAKE(q) num[q] = number(t) + 1; nxt[q] = 0; prv[q] = t; prel[q] = false; HOLD(q, 4); k = 0; do :: k < K -> w[q*K+k] = EMPTY; ce[q*K+k] = false; k++ :: else -> break od

/* writes message v; sent: 0 when a bounded channel is full */
inline put(v) {
  d_step { began[v] = true; k = 0; do :: k < M -> before[k*M+v] = ready[k]; k++ :: else -> break od; sent = 2 };
  do
  :: sent != 2 -> break
  :: sent == 2 && t == 0 -> l = tail; reach(l, tail, l, 2); if :: ok == 1 -> t = l :: else fi
  :: sent == 2 && t != 0 ->
     CHECK(t);
     i = 0;
     do
     :: i < K && w[place(t)*K+i] != EMPTY -> i++
     :: i == K -> break
     :: i < K && w[place(t)*K+i] == EMPTY -> break
     od;
     crowded = 0;
#if MAXSIZE
#ifdef BUG_BOUND_ONCE
     if :: !counted -> count(); counted = 1 :: else fi;
#else
     count();
#endif
#endif
     if
     :: crowded -> sent = 0
     :: !crowded && i == K ->
        if
        :: d_step { nxt[place(t)] == 0 };
           if                                        /* make one: take a place, write it, pin it */
           :: d_step { reusable(0) -> s = 0; TAKE(0) }
           :: d_step { !reusable(0) && reusable(1) -> s = 1; TAKE(1) }
#if NS > 2
           :: d_step { !reusable(0) && !reusable(1) && reusable(2) -> s = 2; TAKE(2) }
           :: d_step { !reusable(0) && !reusable(1) && !reusable(2) -> s = NS }
#else
           :: d_step { !reusable(0) && !reusable(1) -> s = NS }
#endif
           fi;
           if
           :: s == NS -> sent = 0                    /* out of memory: the put fails */
           :: s < NS ->
              d_step { pinned[s] = true; pending = 1 };
              if
              :: d_step { nxt[place(t)] == 0 -> nxt[place(t)] = num[s]*NS + s; pending = 0 }
              :: d_step { nxt[place(t)] != 0 } -> d_step { pinned[s] = false; pending = 0 }
              fi;
              DROP(s, 4)
           fi
        :: d_step { nxt[place(t)] != 0 }
        fi;
        if
        :: sent == 2 ->
           d_step { if :: tail == t -> tail = nxt[place(t)] :: else fi };
           d_step { DROP(place(t), 2); t = 0 }
        :: else
        fi
     :: !crowded && i < K ->
        if
        :: d_step { w[place(t)*K+i] == EMPTY -> w[place(t)*K+i] = WRITING; wo[place(t)*K+i] = p; unfinished++;
                    assert(MAXSIZE == 0 || unfinished <= MAXSIZE) /* C5 */ };
           CHECK(t);
           d_step { pinm[v] = true; cm[place(t)*K+i] = v; ce[place(t)*K+i] = true };  /* export, recorded in the cell */
           CHECK(t);
           d_step { w[place(t)*K+i] = READY; ready[v] = true; waiting[v] = true };
           sent = 1
        :: d_step { w[place(t)*K+i] != EMPTY }
        fi
     fi
  od
}
/* full: would position (number(t)-1)*K + i be more than MAXSIZE above what is known to be finished? */
inline count() {
  do
  :: to_head();
     d_step { n = (number(chain[0]) - 1) * K; x = 0; y = 0; again = 0 };
     do
     :: y < K ->
        d_step { st = w[place(chain[x])*K+y]; if :: (st == FINISHED || st == TOMB) -> n++ :: else fi };
        if :: st == EMPTY -> break :: else -> y++ fi
     :: y == K ->
        if
        :: d_step { nxt[place(chain[x])] == 0 } -> break
        :: d_step { nxt[place(chain[x])] != 0 -> l = nxt[place(chain[x])] };
           if
           :: x + 1 < nc -> ok = 1
           :: else -> reach(l, head, chain[0], 1); if :: ok == 1 -> d_step { chain[nc] = l; nc++ } :: else fi
           fi;
           if :: ok == 1 -> d_step { x++; y = 0 } :: else -> again = 1; break fi
        fi
     od;
     if :: again :: else -> break fi
  od;
  crowded = (((number(t) - 1) * K + i + 1) > n + MAXSIZE)
}

proctype Process(byte p; byte from; byte writes; byte reads) {
  byte chain[NS+1], nc = 0, t = 0, l, k, x, i, c, m, s, st, v, n, y;
  byte got, sent, ok; short passed = 0, busy = 0;
  bool again, changed, finished, crowded, won, pending = 0, counted = 0;
  { v = from;
    do
    :: v < from + writes -> put(v); v++
    :: v == from + writes -> break
    od;
    n = 0;
    v = 0;
    do
    :: v < reads -> get(); v++
    :: v == reads -> break
    od;
    alive[p] = false; false
  } unless { !alive[p] };
  d_step { if :: pending -> gap = true :: else fi };
  over[p] = true
}

proctype Newcomer(byte p) {
  byte chain[NS+1], nc = 0, l, k, x, i, c, m, st;
  byte got, ok; short passed = 0, busy = 0;
  bool again, changed, finished, won;
  do
  :: get(); if :: got == 0 -> break :: else fi
  od;
  skip;
  d_step {
    k = 0;
    do
    :: k < M -> assert(!ready[k] || taken[k] == 1); assert(!pinm[k]); k++       /* C1, L1 */
    :: else -> break
    od;
    k = 0;
    do
    :: k < NS -> assert(!pinned[k] || k == place(head) || gap); k++               /* L1 */
    :: else -> break
    od;
    assert(unfinished == 0)
  };
  over[3] = true
}

active proctype Main() {
  atomic {
    num[0] = 1; pinned[0] = true; prel[0] = true; head = NS; tail = NS;          /* segment 1 at place 0 */
    alive[0] = true; alive[1] = true; alive[2] = true;
    run Process(0, 0, W0, 0); run Process(1, W0, W1, R1); run Process(2, 0, 0, R2)
  };
  (over[0] && over[1] && over[2]);
  atomic { alive[3] = true; run Newcomer(3) };
  over[3];
  end: skip
}

/* somebody else's memory: takes what is free; a garbage handle lies there now */
active proctype Foreign() {
  byte n = 0;
  end: do
  :: d_step { n < FOREIGN && num[0] && reusable(0) -> num[0] = 0; n++ }
  :: d_step { n < FOREIGN && num[1] && reusable(1) -> num[1] = 0; n++ }
  :: n == FOREIGN -> break
  od
}

active proctype Killer() {
  end: do
  :: crashes < MAXCRASH && alive[0] -> d_step { crashes++; alive[0] = false }
  :: crashes < MAXCRASH && alive[1] -> d_step { crashes++; alive[1] = false }
  :: crashes < MAXCRASH && alive[2] -> d_step { crashes++; alive[2] = false }
  od
}
