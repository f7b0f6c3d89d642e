from stepscope.kernels.points cimport Points

cdef class Spent:
    cdef public double seconds
    cdef public double theirs
    cdef public long long steps

cdef class Rest:
    cdef public bint on
    cdef public long long left
    cdef public long long low
    cdef public long long high
    cdef public double when
    cdef public double above_s

    cdef bint _holds(self, long long step, double now, double seconds) noexcept

cdef class Stages:
    cdef readonly list names
    cdef readonly list order
    cdef readonly set pauses
    cdef readonly int running
    cdef public int first
    cdef public double since
    cdef readonly double took_s
    cdef readonly bint on
    cdef public bint keep
    cdef public object group
    cdef public object device
    cdef readonly bint fresh
    cdef readonly bint arrived
    cdef public int held
    cdef public object marker
    cdef list _rows
    cdef object _steady
    cdef unsigned long _thread
    cdef double _spent[16]
    cdef double _rested[16]
    cdef int _followed

    cpdef int number(self, str name) except -2
    cpdef int mark(self, int number) except -2
    cpdef int rename(self, int number) except -2
    cpdef bint marks(self)
    cpdef void drop(self)
    cdef int _begin(self, double now, long long step, double waited) except -2
    cdef int _end(self, long long step, double now, double waited) except -2
    cdef int _see(self, int number) except -2
    cdef double _now(self) except? -1

cdef class Block:
    cdef public bint loops
    cdef public bint counts
    cdef public bint worked
    cdef public bint ended
    cdef public bint taken
    cdef public long long number
    cdef public long long left

cdef class Steps:
    cdef public Points points
    cdef public Stages stages
    cdef public Spent spent
    cdef public object owner
    cdef public object hooks
    cdef public tuple before
    cdef public tuple after
    cdef public object flush
    cdef public long long every
    cdef public bint stopping
    cdef public bint withdrawing
    cdef public long long next
    cdef readonly long long done
    cdef readonly long long number
    cdef readonly bint has_begun
    cdef readonly bint running
    cdef public double asked
    cdef public bint looping
    cdef public bint led
    cdef public list on_leave
    cdef list _blocks
    cdef double _waited
    cdef double _left_out
    cdef object _steady
    cdef long long _numbers[128]
    cdef double _seconds[128]
    cdef double _waits[128]

    cpdef begin(self, double asked, object waited=*)
    cpdef double end(self, double now) except? -1
    cpdef void leave_out(self, double seconds)
    cpdef void abandon(self)
    cpdef void wait_more(self, double seconds)
    cpdef void optimized(self)
    cdef int _wait(self, double waited) except -1
    cdef tuple _past(self, long long which)
    cdef Block _enclosing(self)
    cdef int _leave(self, Block block) except -1
    cdef int _tell_nested(self, bint counts) except -1
    cdef int _begin(self, double asked, double waited) except -1
    cdef double _end(self, double now) except? -1
    cdef int _record(self, long long step, double step_ms, double wait_ms) except -1
    cdef bint _ended(self, long long step, double now, double seconds) except -1
    cdef bint _due(self, tuple chosen) except -1
    cdef bint _stops(self) except -1
    cdef int _withdraw(self) except -1
    cdef int _left(self, object error) except -1
    cdef int _call(self, tuple chosen, long long step) except -1
    cdef double _now(self) except? -1
    cdef double _account(self)
    cdef double _charge(self, double begun, double spent, double theirs) except? -1

cdef class Step:
    cdef Steps _steps
    cdef Block _block

cdef class HotCalls:
    cdef Points _points
    cdef Steps _steps
    cdef object _unusual

cdef class HotWriter:
    cdef public HotCalls _direct
