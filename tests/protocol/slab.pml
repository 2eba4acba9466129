/* A slab of GPU memory in the ledger of shmtensor: hold rows with an open count, pins, events, a slot of kind D.
 *
 * One slab with one block; owner 0; processes 1 and 2, of which 1 also sends on. Work on a GPU is queued and ends later, by
 * a step of Device. MAXCRASH processes are killed between any two accesses to shared memory. Then, each by a step of its
 * own: its row's lock is free (alive is false); its context ends, work and mapping go; its exit is visible.
 * Every statement outside d_step is one access or one call of CUDA.
 *
 *   S1  the block is used again only when no living process has an accepted hold and no queued work of others touches it
 *   S2  a hold is accepted only on the very use of the block that was sent
 *   S3  a message that was neither acknowledged nor expired is refused only if the owner has died
 *   E1  a receiver's work begins when the sender's work ahead of the message has ended, or was lost and the sender swept
 *   E2  it begins: a sender that dies ahead of its work leaves the word unwritten, and the sweep of its row writes it
 *   M1  cudaFree when no other process has the slab open
 *   M2  a slot is free only when no row counts anything in it: nobody's later step can touch its next use
 *   L1  when everybody has dropped or is gone: the block comes back, the slab is freed, or its slot is
 */
#ifndef OPS0
#define OPS0 4
#endif
#ifndef OPS1
#define OPS1 4
#endif
#ifndef OPS2
#define OPS2 3
#endif
#ifndef NH
#define NH 1
#endif
#ifndef MAXCRASH
#define MAXCRASH 1
#endif

#define QUIET 0
#define LIVE 1
#define DYING 2
#define S_FREE 0
#define S_LIVE 1
#define S_LOST 2
#define S_FREEING 3
#define NONE 7

byte gen = 0, st = QUIET, sst = S_LIVE, sown = 0, sinc = 0;
bool H[3], O[3];                     /* a row's bit; its count for "open". nheld = H + O */
bool pend[2]; byte pgen[2];          /* pins, by sender */
byte nh = 0, hgen[2], hsnd[2], huse[2]; bool hok[2], hneed[2];   /* messages; hneed: work ahead of it has not ended */
bool alive[3], rowused[3];
bool exited[3];                      /* visible to all; not before the context has ended */
bool queued = false;                 /* the owner's stream writes the block */
bool unwritten = false;              /* it died ahead of that: its timeline's word is not what receivers wait for */
bool work[3]; byte wmsg[3];          /* queued on the block, and by which message it came */
bool map[3], acc[3];                 /* ghosts: mapped by CUDA; arrays exist */
byte use = 0, ost = 1, crashes = 0; bool freed = false, done[3];

#define AL(p) (alive[p])
#define has_context(r) (work[r] || map[r] || (r == 0 && queued))
#ifdef BUG_SWEPT_AT_LOCK
#define may_sweep(r) (!AL(r))
#else
#define may_sweep(r) (!AL(r) && exited[r])       /* row.device is set: it had to be before the first hold or slab */
#endif
#define nobody (!(acc[1] && AL(1)) && !(acc[2] && AL(2)) && !work[1] && !work[2])
#define nheld(r) (H[r] || O[r])
#define waits(p) (hneed[wmsg[p]] && (queued || unwritten))

inline validate(g, ok) {
  do
  :: d_step { sst != S_LIVE -> ok = 0 } -> break
  :: sst == S_LIVE ->
     if
     :: d_step { (gen == g && st == LIVE) -> ok = 1 }
     :: d_step { (gen == g && st != LIVE) -> st = LIVE; ok = 1 }  /* rescue, or a first export */
     :: d_step { gen != g -> ok = 0 }
     fi; break
  od
}
inline ack(k) { d_step { pend[hsnd[k]] = false; hok[k] = false } }

inline export(p, ok, need) {
  d_step { need = queued || work[1] || work[2]; pgen[p] = gen };   /* the event is recorded: work of p and, by order, ahead */
  pend[p] = true;
  validate(pgen[p], ok);
  if
  :: ok == 1 ->
     d_step { if :: nh < NH -> hgen[nh] = pgen[p]; hsnd[nh] = p; huse[nh] = use; hok[nh] = true; hneed[nh] = need; nh++
                 :: else -> pend[p] = false fi }
  :: else -> d_step { assert(!AL(0)); pend[p] = false }            /* the owner died: PeerLostError */
  fi
}

inline receive(p, k, ok) {
  if
  :: d_step { H[p] && !acc[p] -> ok = 2 }                          /* LEAVING: comes back when the bit is cleared */
  :: else ->
     H[p] = true;                                                  /* publish, fence */
     validate(hgen[k], ok);
     if
     :: ok == 1 ->
        d_step { assert(huse[k] == use); acc[p] = true };          /* S2 */
        if
        :: O[p] -> skip
        :: else ->
           O[p] = true;                                            /* counted, then opened */
           if
           :: d_step { (!exited[0] && !freed) -> map[p] = true }     /* of a dead owner, too, while its context is there */
           :: d_step { !(AL(0) && !freed) -> assert(!AL(0)); ok = 0 };
              O[p] = false; d_step { acc[p] = false }; H[p] = false  /* the open fails: PeerLostError */
           fi
        fi;
        if :: ok == 1 -> ack(k) :: else fi
     :: else -> d_step { assert(!hok[k] || sst != S_LIVE); assert(!hok[k] || !AL(0)) }; H[p] = false  /* S3 */
     fi
  fi
}

inline sweep(r) {
  if
  :: d_step { (rowused[r] && may_sweep(r)) -> skip };
     H[r] = false; O[r] = false;
#ifndef BUG_WAITS_LEFT
     if :: r == 0 -> unwritten = false :: else fi;
#endif
     if
     :: d_step { (sown == r && sst == S_LIVE) ->
#ifdef BUG_LOST_AT_ONCE
        assert(!(nheld(1) && AL(1)) && !(nheld(2) && AL(2))); sst = S_FREE; sown = NONE; sinc++
#else
        sst = S_LOST; sown = NONE
#endif
        }
     :: d_step { (sown == r && sst == S_FREEING) -> sst = S_FREE; sown = NONE; sinc++ }
     :: else
     fi;
     rowused[r] = false
  :: else
  fi
}
inline drop(p) {
  d_step { acc[p] = false };
#ifndef BUG_BIT_BEFORE_EVENT
  do                                                               /* until its event has passed; the timer sweeps */
  :: d_step { !work[p] -> skip } -> break
  :: work[p] && rowused[0] && may_sweep(0) -> sweep(0)
  od;
#endif
  H[p] = false
}
inline close(p) {
#ifdef BUG_COUNT_FIRST
  O[p] = false; map[p] = false
#else
  map[p] = false; O[p] = false
#endif
}

/* any process: a LOST slot that no row counts in */
inline free_lost(p) {
  if
  :: sst == S_LOST ->
     if
     :: nheld(1) -> skip
     :: !nheld(1) ->
        if
        :: nheld(2) -> skip
        :: !nheld(2) ->
           if
           :: d_step { sst == S_LOST -> sst = S_FREEING; sown = p };
              d_step { assert(!(acc[1] && AL(1)) && !(acc[2] && AL(2)) && !map[1] && !map[2]);  /* M2 */
                       if :: (sst == S_FREEING && sown == p) -> sst = S_FREE; sown = NONE; sinc++ :: else fi }
           :: else
           fi
        fi
     fi
  :: else
  fi
}

inline scan(mask, held) {
  d_step { mask = 15; held = 0 };
  do
  :: d_step { (mask & 1) && !held -> mask = mask & ~1; held = held | H[1] }
  :: d_step { (mask & 2) && !held -> mask = mask & ~2; held = held | H[2] }
#ifdef BUG_PINS_UNSEEN
  :: d_step { (mask & 12) && !held -> mask = mask & 3 }
#else
  :: d_step { (mask & 4) && !held -> mask = mask & ~4; held = held | (pend[0] && pgen[0] == gen) }
  :: d_step { (mask & 8) && !held -> mask = mask & ~8; held = held | (pend[1] && pgen[1] == gen) }
#endif
  :: held || mask == 0 -> break
  od
}
inline reclaim(mask, held) {
#ifndef BUG_NO_MARK
  st = DYING;
#endif
  scan(mask, held);
  if
  :: held -> d_step { if :: st == DYING -> st = LIVE :: else fi }
#ifdef BUG_NO_MARK
  :: !held -> d_step { st = QUIET; gen++; ost = 0; assert(nobody); use++ }
#else
  :: !held ->
     if
     :: d_step { st == DYING -> st = QUIET; gen++; ost = 0; assert(nobody) /* S1 */; use++ }
     :: else
     fi
#endif
  fi
}
/* the owner frees the slab: its block is free */
inline retire() {
#ifndef BUG_FREED_WHILE_OPEN
  if
  :: nheld(1) -> skip
  :: !nheld(1) ->
     if
     :: nheld(2) -> skip
     :: !nheld(2) ->
#endif
        sst = S_FREEING;
        d_step { freed = true; assert(!map[1] && !map[2]) /* M1 */ };
        d_step { sst = S_FREE; sown = NONE; sinc++ }
#ifndef BUG_FREED_WHILE_OPEN
     fi
  fi
#endif
}

proctype Owner() {
  byte n = 0, mask = 0, ok = 0; bool held = false, need = false;
  { do
    :: d_step { n < OPS0 && ost == 0 && !freed -> n++; ost = 1; assert(nobody) /* S1 */; use++ }
    :: d_step { n < OPS0 && (ost == 1 || ost == 2) && !queued -> n++; queued = true }
    :: d_step { n < OPS0 && ost == 1 -> n++; ost = 0 }
    :: d_step { n < OPS0 && (ost == 1 || ost == 2) && !pend[0] && nh < NH -> n++; ost = 2 }; export(0, ok, need)
    :: d_step { n < OPS0 && ost == 2 -> n++; ost = 3 }
    :: d_step { n < OPS0 && ost == 3 -> n++ }; reclaim(mask, held)
    :: d_step { n < OPS0 && ost == 0 && !freed -> n++ }; retire()
    :: d_step { n < OPS0 && !AL(1) -> n++ }; sweep(1)
    :: d_step { n < OPS0 && !AL(2) -> n++ }; sweep(2)
    :: break
    od;
    atomic { if :: ost == 1 -> ost = 0 :: ost == 2 -> ost = 3 :: else fi };
    (done[1] && done[2] && exited[1] && exited[2]);
    sweep(1); sweep(2);
    d_step { pend[0] = false; pend[1] = false };                   /* grace over */
    if :: ost == 3 -> reclaim(mask, held) :: else fi;
    assert(ost == 0);                                              /* L1 */
    if :: !freed -> retire() :: else fi;
    assert(freed && sst == S_FREE);                                /* L1 */
    alive[0] = false; false
  } unless { !alive[0] };
  done[0] = true
}

proctype Member(byte p; byte ops) {
  byte n = 0, k = 0, ok = 0; bool need = false;
  { do
    :: atomic { n < ops && nh > 0 && !acc[p] -> n++; if :: k = 0 :: nh > 1 -> k = 1 fi }; receive(p, k, ok)
    :: d_step { n < ops && acc[p] && map[p] && !work[p] -> n++; work[p] = true; wmsg[p] = k }
    :: d_step { n < ops && acc[p] -> n++ }; drop(p)
    :: d_step { n < ops && !acc[p] && !H[p] && O[p] -> n++ }; close(p)
    :: d_step { n < ops && p == 1 && acc[p] && !pend[1] && nh < NH -> n++ }; export(1, ok, need)
    :: d_step { n < ops && !AL(0) -> n++ }; sweep(0)
    :: d_step { n < ops && sst == S_LOST -> n++ }; free_lost(p)
    :: break
    od;
    if :: H[p] -> drop(p) :: else fi;
    if :: O[p] -> close(p) :: else fi;
    alive[p] = false; false
  } unless { !alive[p] };
  done[p] = true
}

/* queued work ends at any time; what a message made wait, only after the work ahead of it */
active proctype Device() {
  byte p;
  end: do
  :: d_step { queued -> queued = false; hneed[0] = hneed[0] && (work[1] || work[2]); hneed[1] = hneed[1] && (work[1] || work[2]) }
#ifdef BUG_NO_EVENT_WAIT
  :: d_step { work[1] -> assert(!waits(1)); work[1] = false }
  :: d_step { work[2] -> assert(!waits(2)); work[2] = false }
#else
  :: d_step { work[1] && !waits(1) -> work[1] = false }                        /* E1 by its guard: the word */
  :: d_step { work[2] && !waits(2) -> work[2] = false }
#endif
  :: d_step { !AL(0) && queued -> queued = false; unwritten = true }           /* contexts of the dead end */
  :: d_step { !AL(0) && !has_context(0) && !exited[0] -> exited[0] = true }    /* then they exit */
  :: d_step { !AL(1) && !has_context(1) && !exited[1] -> exited[1] = true }
  :: d_step { !AL(2) && !has_context(2) && !exited[2] -> exited[2] = true }
  :: d_step { !AL(1) && (work[1] || map[1]) -> work[1] = false; map[1] = false; acc[1] = false }
  :: d_step { !AL(2) && (work[2] || map[2]) -> work[2] = false; map[2] = false; acc[2] = false }
  od
}

active proctype Main() {
  byte r = 0;
  atomic {
    exited[0] = false; exited[1] = false; exited[2] = false;
    alive[0] = true; alive[1] = true; alive[2] = true; rowused[0] = true; rowused[1] = true; rowused[2] = true;
    run Owner(); run Member(1, OPS1); run Member(2, OPS2)
  };
  /* everybody is gone: a newcomer sweeps */
  (done[0] && done[1] && done[2] && exited[0] && exited[1] && exited[2]);
  do
  :: r < 3 -> sweep(r); r++
  :: else -> break
  od;
  free_lost(3);
  assert(sst == S_FREE);                                           /* L1 */
  end: skip
}

active proctype Killer() {
  end: do
  :: crashes < MAXCRASH && AL(0) -> d_step { crashes++; alive[0] = false }
  :: crashes < MAXCRASH && AL(1) -> d_step { crashes++; alive[1] = false }
  :: crashes < MAXCRASH && AL(2) -> d_step { crashes++; alive[2] = false }
  od
}
