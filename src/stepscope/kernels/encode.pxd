cdef extern from "crc32c.h" nogil:
    unsigned int native_masked_crc32c(const unsigned char* p, size_t n)
    const char* native_crc_setup(bint by_table)

cdef extern from "string.h" nogil:
    void* memcpy(void* to, const void* source, size_t n)

cdef extern from "float.h" nogil:
    const float LEAST "FLT_MIN"

cdef inline const unsigned char* begin(const unsigned char[::1] data) noexcept:
    return &data[0]

cdef inline unsigned char* room_at(unsigned char[::1] data) noexcept:
    return &data[0]

cdef inline void put_u8(unsigned char* p, Py_ssize_t at, unsigned long long value) noexcept nogil:
    memcpy(p + at, &value, 8)

cdef inline void put_f8(unsigned char* p, Py_ssize_t at, double value) noexcept nogil:
    memcpy(p + at, &value, 8)

cdef inline void put_f4(unsigned char* p, Py_ssize_t at, double value) noexcept nogil:
    cdef float narrow = <float>value
    memcpy(p + at, &narrow, 4)

cdef inline void put_bytes(unsigned char* p, Py_ssize_t at, const unsigned char* source, Py_ssize_t begin, Py_ssize_t n) noexcept nogil:
    memcpy(p + at, source + begin, n)

cdef inline void put_crc(unsigned char* p, Py_ssize_t at, Py_ssize_t begin, Py_ssize_t n) noexcept nogil:
    cdef unsigned int crc = native_masked_crc32c(p + begin, n)
    memcpy(p + at, &crc, 4)

cdef inline unsigned long long bits(long long step) noexcept nogil:
    return <unsigned long long>step

cdef inline bint fits(double value) noexcept nogil:
    cdef float narrow = <float>value
    return (narrow - narrow == 0 and (narrow >= LEAST or narrow <= -LEAST or narrow == value)) or value - value != 0

cdef inline bytes crc_setup():
    return native_crc_setup(False)

cdef Py_ssize_t _varint_size(unsigned long long value) noexcept nogil
cdef Py_ssize_t _put_varint(unsigned char* p, Py_ssize_t at, unsigned long long value) noexcept nogil
