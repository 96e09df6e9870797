/* CUDA texts as C++ on threads of the host: one thread for each of a kernel's, a barrier for each block and for each warp.
   Copies that are asynchronous arrive at once, or (late) only where they are waited for. */
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <pthread.h>
#include <sched.h>
#include <sys/mman.h>
#include <vector>

#define __device__
#define __global__
#define __constant__
#define __shared__ static
#define __forceinline__ inline
#define __noinline__
#define __launch_bounds__(...)
#define __cluster_dims__(...)
#define __align__(n) alignas(n)
#define __isGlobal(x) true
#define __builtin_assume(x)

using std::max;
using std::min;

struct host_place {
    unsigned x;
};
struct host_factors {
    unsigned a[4], b[2];
};
struct host_block {
    pthread_barrier_t barrier;
    std::vector<pthread_barrier_t> warps;
    std::vector<double> given; /* by thread: what a shuffle passes on */
    std::vector<host_factors> factors; /* by thread: of a product of a warp */
    char *chip;
    host_block *cluster; /* the first block of its cluster */
    pthread_barrier_t meeting; /* of the cluster: that of its first block */
};
static thread_local host_place threadIdx, blockIdx, gridDim, blockDim;
static thread_local host_block *host_here;

static inline void __syncthreads() { pthread_barrier_wait(&host_here->barrier); }
static inline void __syncwarp() { pthread_barrier_wait(&host_here->warps[threadIdx.x / 32]); }
template <class T>
static inline T __shfl_xor_sync(unsigned, T x, int mask) {
    memcpy(&host_here->given[threadIdx.x], &x, sizeof x);
    __syncwarp();
    memcpy(&x, &host_here->given[threadIdx.x ^ mask], sizeof x);
    __syncwarp();
    return x;
}
static inline void __threadfence() { __atomic_thread_fence(__ATOMIC_SEQ_CST); }
template <class T>
static inline T atomicAdd(T *to, T value) { return __atomic_fetch_add(to, value, __ATOMIC_SEQ_CST); }
static inline float atomicAdd(float *, float) { abort(); }
static inline double atomicAdd(double *, double) { abort(); }
static inline unsigned atomicInc(unsigned *to, unsigned most) {
    unsigned old = __atomic_load_n(to, __ATOMIC_SEQ_CST);
    while (!__atomic_compare_exchange_n(to, &old, old >= most ? 0 : old + 1, false, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST)) {}
    return old;
}
static inline unsigned host_poll(unsigned *from) {
    sched_yield();
    return __atomic_load_n(from, __ATOMIC_ACQUIRE);
}

template <class To, class From>
static inline To host_bits(From x) {
    To y;
    memcpy(&y, &x, sizeof y);
    return y;
}
static inline unsigned __float_as_uint(float x) { return host_bits<unsigned>(x); }
static inline float __uint_as_float(unsigned x) { return host_bits<float>(x); }
static inline float __int_as_float(int x) { return host_bits<float>(x); }
static inline long long __double_as_longlong(double x) { return host_bits<long long>(x); }
static inline double __longlong_as_double(long long x) { return host_bits<double>(x); }
static inline float __fmaf_rn(float x, float y, float z) { return fmaf(x, y, z); }
static inline float __fmul_rn(float x, float y) { return x * y; }
static inline float __fadd_rn(float x, float y) { return x + y; }
static inline double __fma_rn(double x, double y, double z) { return fma(x, y, z); }
static inline double __dmul_rn(double x, double y) { return x * y; }
static inline double __dadd_rn(double x, double y) { return x + y; }
static inline double __ddiv_rn(double x, double y) { return x / y; }
static inline int __clz(int x) { return x ? __builtin_clz(x) : 32; }
template <class T>
static inline T __ldcg(const T *from) { return *from; }
template <class T>
static inline void __stcg(T *to, T value) { *to = value; }

/* mma.sync.m16n8k8 of tf32: what each thread of a warp has of both factors. */
static inline void host_multiply(float (&sum)[4], const unsigned *a, const unsigned *b) {
    const int lane = threadIdx.x % 32;
    host_factors *const given = host_here->factors.data() + (threadIdx.x - lane);
    memcpy(given[lane].a, a, 16);
    memcpy(given[lane].b, b, 8);
    __syncwarp();
    for (int i = 0; i < 4; i++)
        for (int k = 0; k < 8; k++)
            sum[i] += __uint_as_float(given[lane / 4 * 4 + k % 4].a[k / 4 * 2 + i / 2])
                * __uint_as_float(given[(lane % 4 * 2 + i % 2) * 4 + k % 4].b[k / 4]);
    __syncwarp();
}

/* What blocks of a cluster give to each other (cluster.cu.j2): a barrier counts bytes, and one arrival. */
struct host_tell {
    int bytes;
    short pending, parity;
};
static pthread_mutex_t host_telling = PTHREAD_MUTEX_INITIALIZER;
static inline void host_told(unsigned long long *tell, int bytes, int arrivals) {
    pthread_mutex_lock(&host_telling);
    host_tell &t = *(host_tell *)tell;
    t.bytes += bytes;
    t.pending -= arrivals;
    if (t.bytes == 0 && t.pending == 0) t.pending = 1, t.parity ^= 1;
    pthread_mutex_unlock(&host_telling);
}
static inline void nl_begin_tells(unsigned long long *tells) {
    for (int n = 0; n < 2; n++) *(host_tell *)(tells + n) = host_tell{0, 1, 0};
}
static inline void nl_expect_bytes(unsigned long long *tell, unsigned bytes) { host_told(tell, (int)bytes, 1); }
static inline void nl_await_bytes(unsigned long long *tell, int parity) {
    for (bool here = false; !here; sched_yield()) {
        pthread_mutex_lock(&host_telling);
        here = ((host_tell *)tell)->parity != parity;
        pthread_mutex_unlock(&host_telling);
    }
}
template <class T>
static inline void nl_give(T *to, unsigned long long *tell, int block, T value) {
    char *const there = host_here->cluster[block].chip;
    *(T *)(there + ((char *)to - host_here->chip)) = value;
    host_told((unsigned long long *)(there + ((char *)tell - host_here->chip)), -(int)sizeof(T), 0);
}
static inline void nl_meet_cluster() { pthread_barrier_wait(&host_here->cluster->meeting); }

struct host_copy_of {
    void *to;
    const void *from; /* null: zeros */
    int bytes;
};
static bool host_late;
static thread_local std::vector<std::vector<host_copy_of>> host_copies(1); /* by group; the last one is open */

static inline void host_arrive(const host_copy_of &c) {
    if (c.from)
        memcpy(c.to, c.from, c.bytes);
    else
        memset(c.to, 0, c.bytes);
}
static inline void host_copy(void *to, const void *from, int bytes) {
    const host_copy_of c = {to, from, bytes};
    if (host_late)
        host_copies.back().push_back(c);
    else
        host_arrive(c);
}
static inline void host_commit() { host_copies.emplace_back(); }
static inline void host_wait(int but) { /* -1: for the open group, too */
    const int many = (int)host_copies.size() - 1 - but;
    for (int g = 0; g < many; g++)
        for (const host_copy_of &c : host_copies[g]) host_arrive(c);
    if (many > 0) host_copies.erase(host_copies.begin(), host_copies.begin() + many);
    if (host_copies.empty()) host_commit();
}

/* A file has the number of arenas, then blocks, threads, table, chunk, memory and shared bytes of a launch, then address,
   size and content of each arena. */
struct host_launch {
    long long blocks, threads, table, chunk, memory, shared;
};
struct host_thread {
    const host_launch *launch;
    host_block *block;
    unsigned number, thread;
};
