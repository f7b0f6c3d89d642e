cimport cython

cdef inline const long long* longs_at(const long long[::1] values) noexcept nogil:
    return &values[0]

cdef inline const int* ints_at(const int[::1] values) noexcept nogil:
    return &values[0]

@cython.locals(middle=Py_ssize_t)
cdef inline Py_ssize_t ends_after(const long long* reach, Py_ssize_t low, Py_ssize_t high, long long begin) noexcept nogil

@cython.locals(middle=Py_ssize_t, low=Py_ssize_t, high=Py_ssize_t, step=Py_ssize_t)
cdef inline Py_ssize_t starts_from(const long long* start, Py_ssize_t k, Py_ssize_t last, long long limit, Py_ssize_t stride) noexcept nogil

@cython.locals(best=Py_ssize_t, i=Py_ssize_t, most="long long")
cdef inline Py_ssize_t longest_within(
    const int* order, const long long* duration, const int* by_16, const int* by_256,
    const int* by_4096, const long long* length_16, const long long* length_256,
    const long long* length_4096, Py_ssize_t k, Py_ssize_t stop) noexcept nogil
