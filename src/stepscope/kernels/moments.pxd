from libc.stdint cimport int64_t

cdef extern from "moments.h" nogil:
    const char* moments_setup(bint plain)
    void moments_part(const unsigned char* p, size_t n, int type, double* out, int64_t* counts, const int64_t* bucket_of_key, bint squares_only)

cdef inline bytes setup(bint plain):
    return moments_setup(plain)

cdef inline void part(long long address, long long n, int type, double* out, int64_t* counts, const int64_t* bucket_of_key, bint squares_only) noexcept nogil:
    moments_part(<const unsigned char*><size_t>address, n, type, out, counts, bucket_of_key, squares_only)

cdef inline double* number_at(double[:, ::1] out, long long row) noexcept nogil:
    return &out[row, 0]

cdef inline int64_t* count_at(long long[:, ::1] counts, long long row) noexcept nogil:
    return <int64_t*>&counts[row, 0] if counts.shape[0] else NULL

cdef inline const int64_t* table(const long long[::1] numbers) noexcept nogil:
    return <const int64_t*>&numbers[0]
