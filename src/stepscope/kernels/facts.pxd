cdef class FactPass:
    cdef readonly long long count
    cdef readonly long long finite
    cdef readonly double first
    cdef readonly double last
    cdef readonly long long first_step
    cdef readonly long long last_step
    cdef readonly double first_wall
    cdef readonly double last_wall
    cdef readonly long long constant_since
    cdef readonly list counters
    cdef readonly double gap_s
    cdef readonly long long width
    cdef double _inf
    cdef double _least
    cdef double _most
    cdef long long _least_step
    cdef long long _most_step
    cdef bint _is_broken
    cdef bint _is_whole
    cdef long long _broken_step
    cdef long long _whole_step
    cdef double _broken_wall
    cdef double _whole_wall
    cdef Py_ssize_t _kept
    cdef Py_ssize_t _room
    cdef Py_ssize_t _most_kept
    cdef long long _filled
    cdef double _sum
    cdef long long _block_step
    cdef double _block_wall
    cdef object _step_data
    cdef object _wall_data
    cdef object _mean_data
    cdef long long[::1] _steps
    cdef double[::1] _walls
    cdef double[::1] _means

    cdef int _keep(self) except -1
    cdef int _grow(self, Py_ssize_t room) except -1
