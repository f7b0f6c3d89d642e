cimport cython

cpdef enum:
    MORE, END, GROW, BAD, GOOD

cpdef enum:
    SKIP, CHARACTER, TOKEN, INTEGER, MILLI, MICRO, IDENTITY, NESTED

cpdef enum:
    AT, ROWS, SPARSE, TEXTS, ARENA, MISTYPED, SATURATED, UNKNOWN

cdef enum:
    SPACE = 0x20
    QUOTE = 0x22
    BACKSLASH = 0x5C

ctypedef unsigned long long hash_t

cdef extern from "native.h" nogil:
    unsigned long long native_u8(const unsigned char* p)
    int native_same(const unsigned char* a, const unsigned char* b, Py_ssize_t n)

cdef extern from "string.h" nogil:
    void* memchr(const void* p, int c, size_t n)
    void* memcpy(void* to, const void* source, size_t n)

cdef inline const unsigned char* bytes_at(const unsigned char[::1] data) noexcept:
    return &data[0]

cdef inline unsigned char* room_at(unsigned char[::1] data) noexcept:
    return &data[0]

cdef inline int* ints_at(int[::1] data) noexcept:
    return &data[0]

cdef inline long long* longs_at(long long[::1] data) noexcept:
    return &data[0]

cdef inline unsigned long long* hashes_at(unsigned long long[::1] data) noexcept:
    return &data[0]

cdef inline unsigned long long load_u8(const unsigned char* p, Py_ssize_t at) noexcept nogil:
    return native_u8(p + at)

cdef inline bint same(const unsigned char* a, Py_ssize_t i, const unsigned char* b, Py_ssize_t j, Py_ssize_t n) noexcept nogil:
    return native_same(a + i, b + j, n)

cdef inline void copy(unsigned char* to, Py_ssize_t at, const unsigned char* p, Py_ssize_t i, Py_ssize_t n) noexcept nogil:
    memcpy(to + at, p + i, n)

cdef inline Py_ssize_t find_byte(const unsigned char* p, Py_ssize_t at, Py_ssize_t end, int byte) noexcept nogil:
    cdef const unsigned char* found = <const unsigned char*>memchr(p + at, byte, end - at) if end > at else NULL
    return -1 if found == NULL else found - p

cdef inline long long as_signed(unsigned long long value) noexcept nogil:
    return <long long>value

cdef inline unsigned long long times(unsigned long long a, unsigned long long b) noexcept nogil:
    return a * b

cdef hash_t hash_of(const unsigned char* p, Py_ssize_t at, Py_ssize_t n) noexcept nogil
cdef Py_ssize_t string_end(const unsigned char* p, Py_ssize_t at, Py_ssize_t end) noexcept nogil
cdef Py_ssize_t value_end(const unsigned char* p, Py_ssize_t at, Py_ssize_t end) noexcept nogil
cdef Py_ssize_t number(const unsigned char* p, Py_ssize_t at, Py_ssize_t end, int scale, long long* out) noexcept nogil
cdef Py_ssize_t blank_end(const unsigned char* p, Py_ssize_t at, Py_ssize_t end) noexcept nogil
cdef Py_ssize_t space_end(const unsigned char* p, Py_ssize_t at, Py_ssize_t end) noexcept nogil

@cython.final
cdef class Texts:
    cdef object kept
    cdef unsigned char* arena
    cdef long long* ends
    cdef unsigned long long* hashes
    cdef int* slots
    cdef Py_ssize_t mask, room, arena_room
    cdef inline Py_ssize_t find(self, const unsigned char* p, Py_ssize_t at, Py_ssize_t n, hash_t h) noexcept nogil
    cdef Py_ssize_t intern(self, const unsigned char* p, Py_ssize_t at, Py_ssize_t n, long long* state) noexcept nogil

@cython.final
cdef class Plan:
    cdef Texts keys
    cdef int[:, ::1] columns
    cdef const unsigned char[::1] types
    cdef const unsigned char[::1] raw
    cdef long long[::1] skipped
    cdef Py_ssize_t skip_column

@cython.final
cdef class Room:
    cdef int[:, ::1] dense
    cdef long long[:, ::1] wide
    cdef int[::1] sparse_row
    cdef unsigned char[::1] sparse_column
    cdef long long[::1] sparse_value
    cdef Py_ssize_t narrow, packed, rows, sparse

@cython.final
cdef class Scan:
    cdef object kept
    cdef const unsigned char* p
    cdef long long* state
    cdef Py_ssize_t size, at, row, nested_at, nested_end, skip
    cdef bint final
    cdef int level, phase, nested_column
    cdef long long scratch[2]
    cdef Plan plan
    cdef Texts keys, texts
    cdef Room room
    cdef int objects(self) noexcept nogil
    cdef inline int one_object(self) noexcept nogil
    cdef inline int member(self) noexcept nogil
    cdef inline Py_ssize_t value_stop(self, Py_ssize_t at, int kind) noexcept nogil
    cdef inline int keep(self, int column, int kind, Py_ssize_t at, Py_ssize_t stop) noexcept nogil
    cdef inline int keep_nested(self) noexcept nogil
    cdef inline int put_sparse(self, int column, long long token) noexcept nogil
