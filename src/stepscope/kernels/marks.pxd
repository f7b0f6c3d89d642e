from stepscope.kernels.steps cimport HotCalls, Stages, Steps

cdef class Phases:
    cdef public int users
    cdef public bint seen
    cdef Steps _steps
    cdef Stages _stages
    cdef object _learns
    cdef int _copy
    cdef int _forward
    cdef int _backward
    cdef int _optimizer
    cdef int _stepping
    cdef bint _differentiating
    cdef bint _after_backward
    cdef bint _entered
    cdef bint _new

    cdef int _begin(self) except -1
    cdef int _closure(self, int number) except -1
    cpdef called(self, object module, bint copies)
    cpdef backward_begins(self)
    cpdef backward_ended(self)
    cpdef optimizer_begins(self)
    cpdef optimizer_ended(self)

cdef class Marks:
    cdef public Phases phases
    cdef public bint copies
    cdef public int left

    cpdef backward_begins(self, object outputs)
    cpdef backward_ended(self)

cdef class Switches:
    cdef public bint off
    cdef public bint led

cdef class LoopMarks:
    cdef public Switches process
    cdef public object run
    cdef public Steps steps
    cdef public unsigned long thread
    cdef public bint differentiated
    cdef public bint got
    cdef public bint ahead
    cdef public bint eager
    cdef public set updated
    cdef public double asked
    cdef public double begun
    cdef public double waited
    cdef public double ended
    cdef public double evaluated_s
    cdef public long long updates
    cdef public bint fetching
    cdef public object by_hand
    cdef object _learns
    cdef object _steady
    cdef unsigned long _noted
    cdef bint _shared
    cdef Py_ssize_t _expected
    cdef object _leader
    cdef long long _number

    cpdef double now(self) except? -1
    cdef bint _is_its_step(self)
    cdef bint _mine(self) except -1
    cdef bint _notes(self, unsigned long trains) except -1
    cdef int _update_begins(self, object updater) except -1
    cdef int _update_ended(self, object updater) except -1
    cpdef bint note_updater(self) except -1
    cpdef double before_fetch(self) except? -1
    cpdef fetched(self, double asked)
    cpdef backward_begins(self, object outputs=*)
    cpdef backward_ended(self)
    cpdef begin_step(self, double asked, object waited=*)
    cdef int _begin_step(self, double asked, double waited) except -1
    cpdef drop_step(self)
    cpdef bint end_at_update(self) except -1

cdef class StepMarks:
    cdef Steps _steps
    cdef double _asked
    cdef double _waited
    cdef double _fetched
    cdef long long _number
    cdef public bint running

    cdef bint _is_its_step(self)
    cpdef asking(self)
    cpdef fetched(self, double seconds)
    cpdef got(self)
    cpdef begin(self, object number=*)
    cpdef end(self)
    cpdef abandon(self)

cdef class Rhythm:
    cdef public long long last
    cdef public long long longest
    cdef public long long patience
    cdef long long _least

    cpdef stepped(self, long long step)

cdef class Gate:
    cdef public Steps steps
    cdef public Rhythm rhythm
    cdef public bint rests
    cdef public long long measured
    cdef public long long awake

    cdef bint _rests_now(self) except -1
    cdef object _update_begins(self, object optimizer, object args, object kwargs)
    cdef int _update_ended(self, object optimizer) except -1

cdef class RateMarks:
    cdef public object optimizer
    cdef public str tag
    cdef public bint apart
    cdef HotCalls _direct

    cdef int _update_ended(self) except -1

cdef class Newcomers:
    cdef object __weakref__
    cdef public set known
    cdef object _meet

    cdef int _update_begins(self, object optimizer) except -1

cdef class UpdateHooks:
    cdef object __weakref__
    cdef tuple _loops
    cdef tuple _newcomers
    cdef tuple _marks
    cdef tuple _rates
    cdef tuple _gates

    cdef tuple _of(self, object kind, tuple listeners, object listener, bint joins)

cdef class BackwardPasses:
    cdef public tuple listeners
    cdef unsigned long _thread
    cdef set _others

    cpdef run(self, object original, tuple arguments, dict named)
