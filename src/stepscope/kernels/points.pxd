cdef extern from *:
    """
    #include <time.h>
    static inline double stepscope_now(void) {
        struct timespec t;
        timespec_get(&t, TIME_UTC);
        return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
    }
    """
    double stepscope_now() nogil

cdef inline double now() noexcept:
    return stepscope_now()

cdef class Points:
    cdef readonly list names
    cdef readonly dict numbers
    cdef readonly dict known
    cdef readonly dict readers
    cdef public object clock
    cdef public long long step
    cdef public bint stepping
    cdef public bint taking
    cdef readonly long long unheld
    cdef readonly long long taken
    cdef public Py_ssize_t mark
    cdef public bint gated
    cdef public double spent
    cdef readonly double usual
    cdef object _steady
    cdef readonly Py_ssize_t count
    cdef Py_ssize_t _room
    cdef int _every
    cdef int _left
    cdef object _columns
    cdef int[::1] _tags
    cdef double[::1] _values
    cdef long long[::1] _steps
    cdef double[::1] _walls

    cpdef bint put(self, object tag, object value, object step=*, double wall=*) except -1
    cpdef bint pair(self, int number, double value, int other, double second, long long step) except -1
    cpdef void lose(self)
    cdef int _store(self, int number, double value, long long step, double wall) except -1
    cdef int _grow(self, Py_ssize_t room) except -1
    cdef double _now(self)
    cdef void _account(self, double took)
