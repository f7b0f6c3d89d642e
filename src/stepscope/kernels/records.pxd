cpdef enum:
    GOOD, INCOMPLETE, BAD_HEADER, BAD_PAYLOAD, FULL

cdef enum:
    OVERHEAD = 16

cdef extern from "crc32c.h" nogil:
    const char* native_crc_setup(bint by_table)
    unsigned int native_masked_crc32c(const unsigned char* p, size_t n)
    int native_check(const unsigned char* p, size_t size, unsigned long long* length)
    unsigned int native_u4(const unsigned char* p)
    unsigned long long native_u8(const unsigned char* p)

ctypedef const unsigned char* Bytes

cdef inline Bytes _begin(const unsigned char[::1] data) noexcept nogil:
    return &data[0]  # also of nothing: no byte of it is read

cdef inline unsigned int _load_u4(Bytes p, Py_ssize_t at) noexcept nogil:
    return native_u4(p + at)

cdef inline unsigned long long _load_u8(Bytes p, Py_ssize_t at) noexcept nogil:
    return native_u8(p + at)

cdef inline unsigned int _masked_crc32c(Bytes p, Py_ssize_t n) noexcept nogil:
    return native_masked_crc32c(p, n)

cdef inline int _check(Bytes p, Py_ssize_t at, Py_ssize_t size) noexcept nogil:
    cdef unsigned long long length
    return native_check(p + at, size - at, &length)

cdef inline bytes _crc_setup(bint by_table):
    return native_crc_setup(by_table)
