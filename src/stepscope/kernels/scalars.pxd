cimport cython

cpdef enum:
    NOTE = 7
    METADATA = 100
    EVENT = 200
    UNDECODABLE = 300
    UNEVEN = 99
    HAS_METADATA = 1
    IS_SCALARS = 2
    IS_WIDE = 4
    NO_NUMBERS = 8

cdef enum:
    NOT_SCALAR, NARROW, WIDE, BAD

cdef extern from "native.h" nogil:
    unsigned long long native_u8(const unsigned char* p)
    unsigned int native_u4(const unsigned char* p)
    unsigned short native_u2(const unsigned char* p)
    double native_f8(const unsigned char* p)
    float native_f4(const unsigned char* p)
    float native_half(unsigned int bits)
    float native_f4_of_bits(unsigned int bits)
    bint native_same(const unsigned char* a, const unsigned char* b, Py_ssize_t n)

ctypedef const unsigned char* Bytes

cdef inline unsigned long long _u8(unsigned long long number) noexcept nogil:
    return number

cdef inline Bytes _begin(const unsigned char[::1] data) noexcept nogil:
    return &data[0]

cdef inline double _load_f8(Bytes p, Py_ssize_t at) noexcept nogil:
    return native_f8(p + at)

cdef inline double _load_f4(Bytes p, Py_ssize_t at) noexcept nogil:
    return native_f4(p + at)

cdef inline unsigned long long _load_u8(Bytes p, Py_ssize_t at) noexcept nogil:
    return native_u8(p + at)

cdef inline unsigned int _load_u4(Bytes p, Py_ssize_t at) noexcept nogil:
    return native_u4(p + at)

cdef inline unsigned int _load_u2(Bytes p, Py_ssize_t at) noexcept nogil:
    return native_u2(p + at)

cdef inline double _half(unsigned int bits) noexcept nogil:
    return native_half(bits)

cdef inline double _f4_of_bits(unsigned int bits) noexcept nogil:
    return native_f4_of_bits(bits)

cdef inline unsigned int _low32(unsigned long long number) noexcept nogil:
    return <unsigned int>number

cdef inline long long _as_signed(unsigned long long number, int bits) noexcept nogil:
    return <long long>(number << (64 - bits)) >> (64 - bits)

cdef inline bint _same(Bytes p, Py_ssize_t at, Bytes q, Py_ssize_t other, Py_ssize_t n) noexcept nogil:
    return native_same(p + at, q + other, n)

cdef class Tags:
    cdef public Py_ssize_t count
    cdef public unsigned char[::1] names
    cdef public long long[::1] ends
    cdef public unsigned char[::1] flags
    cdef Py_ssize_t previous  # the tag of the value before
    cdef int[::1] follow  # of each tag, the one that came after it
    cdef int[::1] table  # hash table of numbers + 1
    # Of each tag the bytes before and after the number of an event, in one array; width 0 where not learned.
    cdef public unsigned char[::1] patterns
    cdef Py_ssize_t learned
    cdef long long[::1] pattern
    cdef int[::1] head
    cdef int[::1] tail
    cdef unsigned char[::1] width
    cdef unsigned char[::1] tries

cdef class Rows:
    cdef public unsigned int[::1] tag
    cdef public double[::1] wall
    cdef public long long[::1] step
    cdef public double[::1] value
    cdef public long long[::1] position
    cdef public long long[::1] notes
    cdef public double[::1] note_wall
    cdef public Py_ssize_t count
    cdef public Py_ssize_t noted
    cdef public Py_ssize_t needed
    cdef public long long low_step
    cdef public long long high_step
    cdef public double low_wall
    cdef public double high_wall
    # Second results of the functions below.
    cdef unsigned long long number
    cdef unsigned long long field
    cdef Py_ssize_t body
    cdef int rank
    cdef int elements
    cdef double real
    cdef Py_ssize_t real_at
    cdef int real_size

@cython.locals(wall=double, step="long long", shift=int, tag=Py_ssize_t, head=Py_ssize_t, width=int, tail=Py_ssize_t,
               pattern=Py_ssize_t)
cdef bint _quick(Bytes p, Py_ssize_t at, Py_ssize_t end, long long position, Tags tags, Rows rows) noexcept nogil

@cython.locals(head=Py_ssize_t, tail=Py_ssize_t, i=Py_ssize_t)
cdef void _learn(Bytes p, Py_ssize_t at, Py_ssize_t end, Py_ssize_t tag, Tags tags, Rows rows) noexcept nogil

cdef void _times(double wall, Rows rows) noexcept nogil

@cython.locals(start=Py_ssize_t, what=int, summaries=int, key_at=Py_ssize_t, first_at=Py_ssize_t, first_end=Py_ssize_t,
               step="long long", wall=double, in_order=bint, key=int, count=Py_ssize_t, noted=Py_ssize_t, done=int)
cdef bint _event(Bytes p, Py_ssize_t at, Py_ssize_t end, long long position, Tags tags, Rows rows) noexcept nogil

@cython.locals(index=int, size=Py_ssize_t)
cdef int _every_summary(Bytes p, Py_ssize_t at, Py_ssize_t end, long long position, long long step, double wall,
                        Tags tags, Rows rows) noexcept nogil

@cython.locals(size=Py_ssize_t, done=int)
cdef int _values(Bytes p, Py_ssize_t at, Py_ssize_t end, long long position, long long step, double wall, int index,
                 Tags tags, Rows rows) noexcept nogil

@cython.locals(kind=int, name_at=Py_ssize_t, name_size=Py_ssize_t, body_at=Py_ssize_t, body_end=Py_ssize_t,
               metadata_at=Py_ssize_t, metadata_size=Py_ssize_t, number=double, key=int, tag=Py_ssize_t, done=int)
cdef int _value(Bytes p, Py_ssize_t at, Py_ssize_t end, long long position, long long step, double wall, int index,
                Tags tags, Rows rows) noexcept nogil

@cython.locals(n=Py_ssize_t)
cdef int _row(Rows rows, Py_ssize_t tag, long long step, double wall, double number, long long position) noexcept nogil

@cython.locals(more=Py_ssize_t, packed=bint)
cdef bint _uneven(Bytes p, Py_ssize_t at, Py_ssize_t end, Rows rows) noexcept nogil

@cython.locals(n=Py_ssize_t, at=Py_ssize_t)
cdef bint _note(Rows rows, int kind, Py_ssize_t tag, long long step, double wall, long long position, int index,
                Py_ssize_t start, Py_ssize_t length) noexcept nogil

cdef void _undo(Py_ssize_t count, Py_ssize_t noted, Tags tags, Rows rows) noexcept nogil

@cython.locals(guess=Py_ssize_t)
cdef Py_ssize_t _tag(Bytes p, Py_ssize_t at, Py_ssize_t size, Tags tags) noexcept nogil

@cython.locals(start=Py_ssize_t)
cdef bint _is_tag(Bytes p, Py_ssize_t at, Py_ssize_t size, Tags tags, Py_ssize_t number) noexcept nogil

@cython.locals(mask=Py_ssize_t, slot=Py_ssize_t, number=Py_ssize_t, start=Py_ssize_t, i=Py_ssize_t)
cdef Py_ssize_t _look_up(Bytes p, Py_ssize_t at, Py_ssize_t size, Tags tags) noexcept nogil

@cython.locals(start=Py_ssize_t, mask=Py_ssize_t, slot=Py_ssize_t)
cdef void _enter(Tags tags, Py_ssize_t number) noexcept nogil

@cython.locals(hashed="unsigned int", i=Py_ssize_t)
cdef unsigned int _hash(Bytes p, Py_ssize_t at, Py_ssize_t size) noexcept nogil

@cython.locals(kind=int, rank=int, elements=int, field=int, content_at=Py_ssize_t, content_size=Py_ssize_t,
               list_at=Py_ssize_t, list_size=Py_ssize_t, key=int, size=Py_ssize_t, element=bint, several=bint)
cdef int _tensor(Bytes p, Py_ssize_t at, Py_ssize_t end, bint is_scalars, Rows rows) noexcept nogil

@cython.locals(rank=int, elements=int, stop=Py_ssize_t, size="long long")
cdef bint _shape(Bytes p, Py_ssize_t at, Py_ssize_t end, Rows rows) noexcept nogil

cdef int _number_in_content(Bytes p, Py_ssize_t at, Py_ssize_t size, int kind, Rows rows) noexcept nogil

@cython.locals(is_int=bint, wanted=int)
cdef int _number_in_list(Bytes p, Py_ssize_t at, Py_ssize_t end, int field, int kind, Rows rows) noexcept nogil

cdef double _half_or_float(unsigned int bits, int kind) noexcept nogil

@cython.locals(stop=Py_ssize_t)
cdef int _plugin_flag(Bytes p, Py_ssize_t at, Py_ssize_t end, Rows rows) noexcept nogil

cdef int _flag_of(int name) noexcept nogil

cdef Py_ssize_t _varint(Bytes p, Py_ssize_t at, Py_ssize_t end, Rows rows) noexcept nogil

@cython.locals(number="unsigned long long", shift=int, byte=int)
cdef Py_ssize_t _long_varint(Bytes p, Py_ssize_t at, Py_ssize_t end, Rows rows) noexcept nogil

cdef Py_ssize_t _size(Bytes p, Py_ssize_t at, Py_ssize_t end, Rows rows) noexcept nogil

@cython.locals(number="unsigned long long", wire=int)
cdef Py_ssize_t _skip(Bytes p, Py_ssize_t at, Py_ssize_t end, Rows rows) noexcept nogil

@cython.locals(before=Py_ssize_t, wire=int, inner="unsigned long long")
cdef Py_ssize_t _skip_group(Bytes p, Py_ssize_t at, Py_ssize_t end, unsigned long long number, int depth,
                            Rows rows) noexcept nogil
