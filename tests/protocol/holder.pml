/* Rows without kernel locks: the word `holder` (native/memory/domain/liveness.cc, SHMTENSOR_LIVENESS=process).
 *
 * A row's holder is the name (pid and start time, never given twice) of who has it, 0: nobody. Process 0 is a member in
 * row 0 and forks process 1 into row 1; until the child puts its own name there the row bears its parent's, and a pipe
 * says to the parent alone whether that is still to come (Note [Fork pipe]). 0 may sweep row 1; 2 sweeps both rows; 3 joins:
 * it sweeps what it finds, takes a row and uses it. MAXCRASH of them are killed between any two accesses. At the end
 * all are dead and a newcomer sweeps. Every statement outside d_step is one access to shared memory or one look at a
 * process.
 *
 * Properties (assert):
 *   H1  a row is swept only when nobody alive takes it for its own, the child before its first instruction included
 *   H2  a row that is taken is nobody else's
 *   H3  a child that is alive after its handler has its row
 *   L1  in the end the newcomer gets every row
 *   and no invalid end state.
 */
#ifndef MAXCRASH
#define MAXCRASH 2
#endif
#ifndef SWEEPER
#define SWEEPER 1
#endif
#ifndef JOINER
#define JOINER 1
#endif
#define NONE 255
#define FREE 0
#define BORN 1
#define LIVE 2
#define NAME(p) ((p) + 1)

byte holder[2]; byte state[2];
bool bits[2];                  /* what the row holds */
byte own[2];                   /* ghost: who takes the row for its own */
bool alive[4]; byte crashes;
bool pipe0, pipe1;             /* who has the end to write of the birth's pipe open: parent, child */
bool forked, over[4];

inline sweep_row(r) {          /* in hand: clear it, then let go */
#ifdef BUG_RELEASE_FIRST
  holder[r] = 0;
#endif
  d_step { assert(own[r] == NONE || !alive[own[r]]) /* H1 */; bits[r] = false };
  d_step { own[r] = NONE; state[r] = FREE };
#ifndef BUG_RELEASE_FIRST
  holder[r] = 0
#endif
}

/* may a child of the dead `h` be about to be named? Looked at before its name. */
inline unborn_may_live(h) {
#ifdef BUG_UNBORN_UNSEEN
  skip
#else
  if
  :: h != NAME(0)              /* older than any child of it */
  :: h == NAME(0) ->
     found = alive[1];
     if
     :: found -> named = (holder[0] == NAME(1)); named = (named || holder[1] == NAME(1)); found = !named
     :: else
     fi
  fi
#endif
}

/* somebody else's row; got: in hand */
inline obtain(r) {
  d_step { got = 0; h = holder[r]; found = 0 };
#ifdef BUG_STATE_READ_EARLY
  st = state[r];
#endif
  if
  :: h == 0 -> d_step { if :: holder[r] == 0 -> holder[r] = NAME(p); got = 1 :: else fi }
  :: h != 0 && h != NAME(p) ->
     if
     :: alive[h - 1]
     :: !alive[h - 1] ->
#ifndef BUG_STATE_READ_EARLY
        st = state[r];
#endif
        if :: st == BORN -> unborn_may_live(h) :: else fi;
        if
        :: found
        :: !found ->
#ifdef BUG_SWEEPER_STORES
           d_step { holder[r] = NAME(p); got = 1 }
#else
           d_step { if :: holder[r] == h -> holder[r] = NAME(p); got = 1 :: else fi }
#endif
        fi
     fi
  :: else
  fi
}

proctype Parent() {
  byte p = 0; bool open;
  { /* fork: a row for the child, in the parent's name, filled before the child runs */
    if
    :: d_step { holder[1] == 0 -> holder[1] = NAME(0) } ->
       if
       :: state[1] != FREE -> sweep_row(1); goto done
       :: else
       fi;
       d_step { pipe0 = true; pipe1 = false };
       state[1] = BORN;
       bits[1] = true;
       if
       :: atomic { forked = true; alive[1] = true; pipe1 = true; own[1] = 1; run Child() }
       :: skip                                              /* fork failed */
       fi;
       pipe0 = false;
       if                                                   /* sweeps, or not */
       :: true ->
#ifndef BUG_PIPE_UNSEEN
          open = (pipe1);                                   /* its own end is closed */
          if
          :: open
          :: !open ->
#endif
#ifndef BUG_NAME_NOT_READ_AGAIN
             if
             :: holder[1] == NAME(0) -> sweep_row(1)
             :: else
             fi
#else
             sweep_row(1)
#endif
#ifndef BUG_PIPE_UNSEEN
          fi
#endif
       :: true
       fi
    :: d_step { holder[1] != 0 }
    fi;
done: alive[0] = false; false
  } unless { !alive[0] };
  d_step { pipe0 = false; over[0] = true }
}

proctype Child() {
  { if
    :: d_step { holder[1] == NAME(0) -> holder[1] = NAME(1) }
    :: d_step { holder[1] != NAME(0) } -> assert(false)     /* H3: it ends itself, saying so; here that never happens */
    fi;
    pipe1 = false;
    state[1] = LIVE;
    assert(bits[1] && own[1] == 1);                         /* what it inherited is there */
    if
    :: d_step { own[1] = NONE; bits[1] = false } -> holder[1] = 0     /* leaves in order (as a guest does) */
    :: skip
    fi;
    alive[1] = false; false
  } unless { !alive[1] };
  d_step { pipe1 = false; over[1] = true }
}

proctype Sweeper(byte p) {
  byte r = 0, h, st; bool got, found, named;
  { do
    :: r < 2 ->
       obtain(r);
       if
       :: got -> sweep_row(r)
       :: else
       fi;
       r++
    :: r == 2 -> break
    od;
    alive[2] = false; false
  } unless { !alive[2] };
  over[2] = true
}

proctype Joiner(byte p) {
  byte r = 0, h, st; bool got, found, named;
  { do
    :: r < 2 ->
       obtain(r);
       if
       :: got ->
          if
          :: state[r] != FREE ->                            /* as sweep_row, and keeps the row */
             d_step { assert(own[r] == NONE || !alive[own[r]]) /* H1 */; bits[r] = false };
             d_step { own[r] = NONE; state[r] = FREE }
          :: else
          fi;
          d_step { assert(own[r] == NONE || !alive[own[r]]) /* H2 */; own[r] = 3; state[r] = LIVE };
          bits[r] = true;
          assert(bits[r] && holder[r] == NAME(3));
          break
       :: else -> r++
       fi
    :: r == 2 -> break
    od;
    alive[3] = false; false
  } unless { !alive[3] };
  over[3] = true
}

active proctype Main() {
  byte p = 4, r = 0, h, st; bool got, found, named;
  atomic {
    own[0] = 0; own[1] = NONE; holder[0] = NAME(0); state[0] = LIVE; bits[0] = true;
    alive[0] = true; run Parent();
#if SWEEPER
    alive[2] = true; run Sweeper(2);
#else
    over[2] = true;
#endif
#if JOINER
    alive[3] = true; run Joiner(3)
#else
    over[3] = true
#endif
  };
  (over[0] && over[2] && over[3] && (!forked || over[1]));
  do
  :: r < 2 ->
     obtain(r);
     assert(got);                                           /* L1 */
     sweep_row(r);
     assert(state[r] == FREE && !bits[r] && holder[r] == 0);
     r++
  :: r == 2 -> break
  od;
  end: skip
}

active proctype Killer() {
  end: do
  :: d_step { crashes < MAXCRASH && alive[0] -> crashes++; alive[0] = false }
  :: d_step { crashes < MAXCRASH && alive[1] -> crashes++; alive[1] = false }
  :: d_step { crashes < MAXCRASH && alive[2] -> crashes++; alive[2] = false }
  :: d_step { crashes < MAXCRASH && alive[3] -> crashes++; alive[3] = false }
  od
}
