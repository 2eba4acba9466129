/* The end of a channel: shutdown() against puts, gets and deaths (native/sync/channel.cc, Note [The end]).
 *
 * K cells of one segment in a row; the chain, pins and the bound are channel.pml's business. Process 0 shuts the channel
 * down, 1 and 2 put one message each (WRITERS of them), 3 and 4 get (READERS of them) until they are told that nothing
 * will come. MAXCRASH of the five are killed between any two accesses to shared memory, but not all readers. A sleeper
 * wakes when its word changed (a futex), and, once somebody has been killed, also by itself: slices of 25 ms are there
 * for the deaths, nothing else may need them. Every statement outside d_step is one access.
 *
 * Properties (assert):
 *   E1  when a reader has been told Over, no message becomes READY any more, given back or sent
 *   E2  and none that was sent is unread: each is taken, by somebody, exactly once (or by one killed with it)
 *   E3  put says Over only of a message that nobody gets
 *   and no invalid end state: all who live come to their end, without a slice unless somebody was killed.
 */
#ifndef WRITERS
#define WRITERS 2
#endif
#ifndef READERS
#define READERS 2
#endif
#ifndef MAXCRASH
#define MAXCRASH 1
#endif
#define K WRITERS
#define EMPTY 0
#define WRITING 1
#define READY 2
#define CLAIMED 3
#define DONE 4
#define FINISHED 5
#define TOMB 6

byte w[K]; byte wo[K];        /* a cell's word: state, process */
byte cm[K];                   /* the message of a cell: who sent it */
bool shut;
bool news[5];                 /* the futex word of readers, as each sees it: has it changed since p looked? */
bool alive[5];
byte crashes;
bool told;                    /* some reader has been told Over */
bool sent[3]; bool refused[3]; byte taken[3];

/* All that a futex asks of its word is whether it is still what it was: a bit for each reader says it, and a count
 * would tell apart states that nothing else does. Fields that mean nothing in a state are 0 there, for the same reason. */
#define announce_items() d_step { news[3] = 1; news[4] = 1 }

/* Without kills no `unless` stands in the way of partial-order reduction. */
#if MAXCRASH > 0
#define killed(p) unless { !alive[p] }
#define escape false
#else
#define killed(p)
#define escape skip
#endif

/* a dead process's cell; changed: look again */
inline tend(c) {
  if
  :: d_step { w[c] == WRITING && !alive[wo[c]] -> w[c] = TOMB; wo[c] = 0; cm[c] = 0 } -> changed = 1
  :: d_step { w[c] == CLAIMED && !alive[wo[c]] -> assert(!told); /* E1 */ w[c] = READY; wo[c] = 0; taken[cm[c]]-- }
     -> announce_items(); changed = 1
  :: d_step { w[c] == DONE && !alive[wo[c]] -> w[c] = FINISHED; wo[c] = 0; cm[c] = 0 } -> changed = 1
  :: else
  fi
}

proctype Shutter() {
  { shut = true;
#ifndef BUG_SHUT_UNSAID
    announce_items();
#endif
    alive[0] = false; escape
  } killed(0)
}

proctype Writer(byte p) {
  byte i = 0;
  { if
    :: shut -> refused[p] = true
    :: !shut ->
       do                      /* the first EMPTY cell; two writers are alike, so 1 is the one that has the earlier */
       :: d_step { i < K && w[i] == EMPTY && (p == 1 || i > 0 || !alive[1]) -> w[i] = WRITING; wo[i] = p; cm[i] = p } -> break
       :: d_step { i < K && w[i] != EMPTY -> i++ }
       od;
#ifdef BUG_WRITER_UNCHECKED
       if
       :: false
       :: true ->
#else
       if
       :: shut -> d_step { w[i] = TOMB; wo[i] = 0; cm[i] = 0 };
#ifndef BUG_REFUSED_UNSAID
          announce_items();
#endif
          refused[p] = true
       :: !shut ->
#endif
          d_step { assert(!told); /* E1 */ w[i] = READY; wo[i] = 0; sent[p] = true };
          announce_items()
       fi
    fi;
    alive[p] = false; escape
  } killed(p)
}

proctype Reader(byte p) {
  byte i, busy, st; bool ends, changed, over = 0, got;
  { do
    :: over -> break
    :: !over ->
       d_step { got = 0; busy = 0; i = 0; changed = 0; st = 0; ends = 0 };
       news[p] = 0;
#ifndef BUG_SHUT_AFTERWARDS
       ends = shut;
#endif
       do                                                   /* the scan */
       :: got || i == K -> break
       :: !got && i < K ->
          st = w[i];
          if
          :: st == EMPTY -> break
          :: st == FINISHED || st == TOMB -> i++
          :: st == WRITING || st == CLAIMED || st == DONE -> d_step { busy = busy | (1 << i); i++ }
          :: st == READY ->
             if
             :: d_step { w[i] == READY -> w[i] = CLAIMED; wo[i] = p; taken[cm[i]]++;
                         assert(taken[cm[i]] == 1 && !refused[cm[i]]) /* E2, E3 */ } ->
                w[i] = DONE;
                d_step { w[i] = FINISHED; wo[i] = 0; cm[i] = 0 };
#ifndef BUG_LAST_UNSAID
                if :: shut -> announce_items() :: !shut fi;
#endif
                got = 1
             :: d_step { w[i] != READY -> i = 0; busy = 0 }   /* somebody was faster: again */
             fi
          fi
       od;
       if
       :: got
       :: !got ->
#ifdef BUG_SHUT_AFTERWARDS
          ends = shut;
#endif
          i = 0;
          do
          :: i < K && (busy & (1 << i)) -> tend(i); i++
          :: i < K && !(busy & (1 << i)) -> i++
          :: i == K -> break
          od;
          i = 0;
          do                                                /* what may still come back or become READY */
          :: i == K -> break
          :: i < K && (busy & (1 << i)) ->
             st = w[i];
#ifdef BUG_CLAIMED_FORGOTTEN
             if :: st == WRITING -> ends = 0 :: else fi;
#else
#ifdef BUG_WRITING_FORGOTTEN
             if :: st == CLAIMED -> ends = 0 :: else fi;
#else
             if :: st == WRITING || st == CLAIMED || st == READY -> ends = 0 :: else fi;
#endif
#endif
             i++
          :: i < K && !(busy & (1 << i)) -> i++
          od;
          if
          :: changed
          :: !changed && ends -> d_step { told = true; over = 1; i = 0; busy = 0; st = 0 }
          :: !changed && !ends ->                           /* FUTEX_WAIT; the last look at the word is the kernel's */
             if
             :: news[p]
             :: crashes > 0
             fi
          fi
       fi
    od;
    alive[p] = false; escape
  } killed(p)
}

active proctype Main() {
  byte k;
  atomic {
    alive[0] = true; run Shutter();
    alive[1] = true; run Writer(1);
#if WRITERS > 1
    alive[2] = true; run Writer(2);
#endif
    alive[3] = true; run Reader(3);
#if READERS > 1
    alive[4] = true; run Reader(4);
#endif
  };
  (!alive[0] && !alive[1] && !alive[2] && !alive[3] && !alive[4]);
  d_step {
    if
    :: told ->
       k = 0;
       do
       :: k < K -> assert(w[k] != READY) /* E2 */; k++
       :: else -> break
       od;
       assert(!sent[1] || taken[1] == 1);
       assert(!sent[2] || taken[2] == 1)
    :: else
    fi
  };
  end: skip
}

/* not all readers: somebody has to be left to be told */
active proctype Killer() {
  end: do
  :: d_step { crashes < MAXCRASH && alive[0] && shut -> crashes++; alive[0] = false }
  :: d_step { crashes < MAXCRASH && alive[1] -> crashes++; alive[1] = false }
  :: d_step { crashes < MAXCRASH && alive[2] -> crashes++; alive[2] = false }
  :: d_step { crashes < MAXCRASH && alive[3] && alive[4] -> crashes++; alive[3] = false }
  od
}
