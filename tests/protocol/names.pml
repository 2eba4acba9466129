/* Named tensors: publish, open, follow, take over, take back (shmtensor/memory/named_tensor_server.py).
 *
 * Process 0 has published its tensor under the name and may take it back; 1 and 2 open it, keep it for a while and let go.
 * The name is an address of which the kernel lets one process have hold, and takes it back at its death. Whoever opened
 * it keeps its connection to who served it: when that breaks without a farewell it takes the name, or follows who has it.
 * A reclaimer gives the block to somebody else (a new generation) as soon as no row holds it. MAXCRASH processes are
 * killed between any two steps. Every statement outside d_step is one access to shared memory or one system call.
 *
 * Properties (assert):
 *   N1  who opened the tensor and holds it finds its own bytes: the block is not used again meanwhile
 *   N2  in the end, whoever still has it can be found by the name, unless it was taken back
 *   N3  nobody takes the name once it has been taken back
 *   and no invalid end state: nobody waits for a dead holder.
 */
#ifndef MAXCRASH
#define MAXCRASH 2
#endif
#ifndef UNPUBLISH
#define UNPUBLISH 1
#endif
#define NONE 9

byte served = NONE;            /* who has the address */
byte gen = 1;                  /* of the block */
bool hold[3];                  /* rows, and the publisher's array */
byte link[3];                  /* an opener's connection leads to this process */
bool farewell[3];              /* is in an opener's connection, to be read */
bool follows[3];               /* has a door: serves the name or waits to */
bool alive[3]; byte crashes;
bool taken_back, quiet;        /* ghost */

proctype Publisher() {
  { if
    :: UNPUBLISH ->
       /* In one: accepting and answering is done by the thread that does this, so who is not told was not answered. */
       d_step {
#ifndef BUG_NO_FAREWELL
                farewell[1] = (link[1] == 0); farewell[2] = (link[2] == 0);
#endif
                served = NONE; follows[0] = false;         /* the listener and its connections are closed */
                link[1] = (link[1] == 0 -> 8 : link[1]); link[2] = (link[2] == 0 -> 8 : link[2]);
                taken_back = true };
       hold[0] = false
    :: true                                                 /* keeps it */
    fi;
    quiet
  } unless { !alive[0] }
}

/* 8: the connection is broken */
proctype Opener(byte p) {
  byte s, g; bool opened = 0, lets_go = 0, keeps = 0;
  { if :: keeps = 1 :: skip fi;
    do                                                      /* open */
    :: opened -> break
    :: !opened ->
       d_step { s = served; link[p] = (s == NONE -> NONE : s) };       /* connect, and be accepted */
       if
       :: s == NONE -> goto done                            /* no such name */
       :: s != NONE ->
          g = 1;                                            /* the answer: a handle with its generation */
          if
          :: link[p] == 8 || farewell[p] -> d_step { link[p] = NONE; farewell[p] = false; g = 0 } /* no answer: again */
          :: else ->
             hold[p] = true;                                /* publish, FENCE, validate */
#ifdef BUG_NOT_VALIDATED
             opened = 1; follows[p] = true
#else
             if
             :: gen == g -> opened = 1; follows[p] = true
             :: gen != g -> hold[p] = false; link[p] = NONE    /* stale: again */
             fi
#endif
          fi
       fi
    od;
    assert(gen == 1);                                       /* N1 */
    do                                                      /* the keeper's thread, and the user who lets go */
    :: lets_go -> break
    :: !lets_go && farewell[p] -> d_step { farewell[p] = false; link[p] = NONE; follows[p] = false }
    :: !lets_go && !farewell[p] && link[p] == 8 ->
       link[p] = NONE;
       if
       :: d_step { served == NONE -> served = p; assert(!taken_back) /* N3 */ }
       :: d_step { served != NONE ->
#ifdef BUG_NOT_FOLLOWED_ON
            follows[p] = false }
#else
            link[p] = served }                              /* follows who was faster */
#endif
       fi
    :: !lets_go && !keeps -> assert(gen == 1); lets_go = 1  /* N1 */
    :: quiet && follows[p] && !farewell[p] && link[p] != 8 -> goto done     /* keeps it to the end */
    :: quiet && !follows[p] -> goto done
    od;
    hold[p] = false;
    d_step { follows[p] = false; link[p] = NONE; farewell[p] = false;
             if :: served == p -> served = NONE;            /* the door is shut: its connections break */
                   link[1] = (link[1] == p -> 8 : link[1]); link[2] = (link[2] == p -> 8 : link[2])
             :: else fi };
done: quiet
  } unless { !alive[p] }
}

active proctype Reclaimer() {
  end: do
  :: d_step { gen < 3 && !hold[0] && !hold[1] && !hold[2] -> gen++ }
  od
}

active proctype Main() {
  atomic { served = 0; hold[0] = true; follows[0] = true; link[0] = NONE; link[1] = NONE; link[2] = NONE;
           alive[0] = true; alive[1] = true; alive[2] = true; run Publisher(); run Opener(1); run Opener(2) };
  timeout;                                                  /* nothing more can happen */
  d_step {
    assert(taken_back || served != NONE || !(hold[0] || hold[1] || hold[2])) /* N2 */;
    quiet = true
  };
  end: skip
}

#define DIE(v) crashes++; alive[v] = false; hold[v] = false; follows[v] = false; link[v] = NONE; farewell[v] = false; \
  if :: served == v -> served = NONE :: else fi; \
  link[1] = (link[1] == v -> 8 : link[1]); link[2] = (link[2] == v -> 8 : link[2])

active proctype Killer() {
  end: do
  :: d_step { crashes < MAXCRASH && !quiet && alive[0] -> DIE(0) }
  :: d_step { crashes < MAXCRASH && !quiet && alive[1] -> DIE(1) }
  :: d_step { crashes < MAXCRASH && !quiet && alive[2] -> DIE(2) }
  od
}
