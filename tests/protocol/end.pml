/* The end of a channel: shutdown() against puts, gets and deaths (native/ipc/channel/channel.cc, Note [The end]).
 *
 * K cells of one segment in a row; the chain, pins and the bound are channel.pml's business. Process 0 shuts the channel
 * down, 1 and 2 put one message each (WRITERS of them), 3 and 4 get (READERS of them) until they are told that nothing
 * will come. MAXCRASH of the five are killed between any two accesses to shared memory, but not all readers. A sleeper
 * wakes when its word changed (a futex), and, once somebody has been killed, also by itself: slices of 25 ms are there
 * for the deaths, nothing else may need them.
 *
 * Properties (assert):
 *   E1  when a reader has been told Over, no message becomes READY any more, given back or sent
 *   E2  and none that was sent is unread: each is taken, by somebody, exactly once (or by one killed with it)
 *   E3  put says Over only of a message that nobody gets
 *   and no invalid end state: all who live come to their end, without a slice unless somebody was killed.
 *
 * What makes it small enough to be searched whole, and why nothing is lost:
 *   - A step is one access to shared memory and whatever its process then does alone: nobody sees the difference, and who
 *     is killed in between might as well have been killed after the access.
 *   - A load whose answer cannot change any more is made together with the store that depends on it: `shut` once it is
 *     set; cells before the first EMPTY one, for a cell never becomes EMPTY again.
 *   - A reader takes a READY cell in one step. In the code it loads, then swaps, and scans anew if somebody was faster:
 *     that scan, which has changed nothing, might as well have begun later.
 *   - Being killed is a step of the victim, possible instead of each of its others, at any time: a process that has
 *     stopped between two steps and one that was killed there differ in nothing but what others may learn of it.
 *   - What means nothing any more is 0: fields of a cell that is over, locals of a process that has ended.
 *   - Alike are the readers, so if one is killed it is 3; and the writers, so 1 has the earlier cell.
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
 * would tell apart states that nothing else does. */
#define announce_items() news[3] = 1; news[4] = 1

/* An alternative to every step of p. Not all readers die: somebody has to be left to be told. */
#if MAXCRASH > 0
#define or_killed(p, mortal) :: d_step { mortal && crashes < MAXCRASH -> crashes++; alive[p] = false; forget() } -> goto gone
#else
#define or_killed(p, mortal)
#endif

proctype Shutter() {
#define forget()
  shut = true;
  if
#ifdef BUG_SHUT_UNSAID
  :: alive[0] = false
#else
  :: d_step { announce_items(); alive[0] = false }
#endif
  or_killed(0, true)
  fi;
gone: skip
#undef forget
}

proctype Writer(byte p) {
  byte i = 0;
#define forget() i = 0
  if
  :: d_step { shut -> refused[p] = true; alive[p] = false } -> goto gone
  :: !shut
  or_killed(p, true)
  fi;
  if                           /* the first EMPTY cell */
  :: d_step { w[0] == EMPTY && (p == 1 || !alive[1]) -> i = 0; w[i] = WRITING; wo[i] = p; cm[i] = p }
#if K > 1
  :: d_step { w[0] != EMPTY -> i = 1; w[i] = WRITING; wo[i] = p; cm[i] = p }
#endif
  or_killed(p, true)
  fi;
#ifndef BUG_WRITER_UNCHECKED
  if
  :: !shut
  :: d_step { shut -> w[i] = TOMB; wo[i] = 0; cm[i] = 0; i = 0 } -> goto refuse
  or_killed(p, true)
  fi;
#endif
  if
  :: d_step { assert(!told); /* E1 */ w[i] = READY; wo[i] = 0; sent[p] = true; i = 0 }
  or_killed(p, true)
  fi;
  if
  :: d_step { announce_items(); alive[p] = false } -> goto gone
  or_killed(p, true)
  fi;
refuse:
  if
#ifdef BUG_REFUSED_UNSAID
  :: d_step { refused[p] = true; alive[p] = false }
#else
  :: d_step { announce_items(); refused[p] = true; alive[p] = false }
#endif
  or_killed(p, true)
  fi;
gone: skip
#undef forget
}

proctype Reader(byte p) {
  byte i = 0, busy = 0;        /* the cell looked at; those passed over */
  bool ends = 0;               /* the end was said when we began */
  bool last = 0;               /* of no cell passed over a message may come back, or become READY */
  bool changed = 0;
#define forget() i = 0; busy = 0; ends = 0; last = 0; changed = 0
#define mortal (p == 3 && READERS > 1)
look:
  if
  :: d_step { news[p] = 0; forget() }
  or_killed(p, mortal)
  fi;
  if
#ifdef BUG_SHUT_AFTERWARDS
  :: last = 1
#else
  :: d_step { ends = shut; last = 1 }
#endif
  or_killed(p, mortal)
  fi;
again:
  do                                                   /* the scan */
  :: d_step { i == K || w[i] == EMPTY -> i = 0 } -> break
  :: d_step { i < K && (w[i] == FINISHED || w[i] == TOMB) -> i++ }
#ifdef BUG_CLAIMED_FORGOTTEN
  :: d_step { i < K && w[i] == WRITING -> last = 0; busy = busy | (1 << i); i++ }
  :: d_step { i < K && (w[i] == DONE || w[i] == CLAIMED) -> busy = busy | (1 << i); i++ }
#else
#ifdef BUG_WRITING_FORGOTTEN
  :: d_step { i < K && w[i] == CLAIMED -> last = 0; busy = busy | (1 << i); i++ }
  :: d_step { i < K && (w[i] == DONE || w[i] == WRITING) -> busy = busy | (1 << i); i++ }
#else
  :: d_step { i < K && (w[i] == WRITING || w[i] == CLAIMED) -> last = 0; busy = busy | (1 << i); i++ }
  :: d_step { i < K && w[i] == DONE -> busy = busy | (1 << i); i++ }
#endif
#endif
  :: d_step { i < K && w[i] == READY -> w[i] = CLAIMED; wo[i] = p; busy = 0; last = 0; ends = 0; taken[cm[i]]++;
              assert(taken[cm[i]] == 1 && !refused[cm[i]]) /* E2, E3 */ } -> goto take
  or_killed(p, mortal)
  od;
#ifdef BUG_SHUT_AFTERWARDS
  if :: ends = shut or_killed(p, mortal) fi;
#endif
  do                                                   /* the cells of the dead, as far as they are still such */
  :: i == K -> break
  :: d_step { i < K && !(busy & (1 << i)) -> i++ }
  :: d_step { i < K && (busy & (1 << i)) && !(w[i] == CLAIMED && !alive[wo[i]]) ->
       if
       :: w[i] == WRITING && !alive[wo[i]] -> w[i] = TOMB; wo[i] = 0; cm[i] = 0; changed = 1
       :: w[i] == DONE && !alive[wo[i]] -> w[i] = FINISHED; wo[i] = 0; cm[i] = 0; changed = 1
       :: else
       fi;
       i++ }
  :: d_step { i < K && (busy & (1 << i)) && w[i] == CLAIMED && !alive[wo[i]] ->
       assert(!told); /* E1 */ w[i] = READY; wo[i] = 0; taken[cm[i]]--; changed = 1; i++ };
     if
     :: d_step { announce_items() }
     or_killed(p, mortal)
     fi
  or_killed(p, mortal)
  od;
  if
  :: d_step { changed -> i = 0; busy = 0; changed = 0; last = 1 } -> goto again
  :: !changed && ends && last -> d_step { told = true; forget(); alive[p] = false } -> goto gone
  :: !changed && !(ends && last) -> d_step { forget() }
  fi;
  if                                                   /* FUTEX_WAIT; the last look at the word is the kernel's */
  :: news[p]
  :: crashes > 0
  or_killed(p, mortal)
  fi;
  goto look;

take:
  if
  :: w[i] = DONE
  or_killed(p, mortal)
  fi;
  if
  :: d_step { w[i] = FINISHED; wo[i] = 0; cm[i] = 0; i = 0 }
  or_killed(p, mortal)
  fi;
#ifndef BUG_LAST_UNSAID
  if
  :: d_step { shut -> announce_items() }
  :: !shut
  or_killed(p, mortal)
  fi;
#endif
  goto look;
gone: skip
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
       :: k < K -> assert(w[k] != READY && w[k] != CLAIMED) /* E2: nor is it with one who was killed before it had it */; k++
       :: else -> break
       od;
       assert(!sent[1] || taken[1] == 1);
       assert(!sent[2] || taken[2] == 1)
    :: else
    fi
  };
  end: skip
}
