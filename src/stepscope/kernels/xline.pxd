cimport cython

cdef extern from "native.h" nogil:
    unsigned long long native_u8(const unsigned char* p)

cdef inline const unsigned char* bytes_at(const unsigned char[::1] data) noexcept:
    return &data[0]

cdef inline long long load_i8(const unsigned char* p, Py_ssize_t at) noexcept nogil:
    return <long long>native_u8(p + at)

cdef inline long long as_signed(unsigned long long value) noexcept nogil:
    return <long long>value

cdef inline Py_ssize_t varint(const unsigned char* p, Py_ssize_t at, Py_ssize_t end, long long* out) noexcept nogil

@cython.locals(key="long long", wire="long long", value="long long", place="long long", size="long long")
cdef inline Py_ssize_t parse(const unsigned char* p, Py_ssize_t at, Py_ssize_t end, long long* out) noexcept nogil

cdef inline Py_ssize_t parse_stat(const unsigned char* p, Py_ssize_t at, Py_ssize_t stop, Py_ssize_t end, long long* out) noexcept nogil
