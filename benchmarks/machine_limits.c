/* What the machine can do at most: streams through memory and fused multiply-adds. */

#include <pthread.h>
#include <stddef.h>
#include <time.h>

/* Enough sums to hide the latency of the units; few enough that compilers keep all in registers. */
#if defined(__AVX512F__)
#define WIDTH 16
#define ACCUMULATORS 16
#elif defined(__AVX__)
#define WIDTH 8
#define ACCUMULATORS 12
#else
#define WIDTH 4
#define ACCUMULATORS 12
#endif

#define MAX_THREADS 256

/* Unaligned vectors of the machine's width. */
typedef float lanes __attribute__((vector_size(WIDTH * 4), aligned(4)));

struct job {
    const float *source;
    float *target;
    size_t reads, writes;
    long repeats;
    double begin, end;
    float sink;
};

static double now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* Keeps the compiler from joining or dropping the repeats. */
static inline void barrier(const void *a, const void *b) {
    __asm__ volatile("" : : "r"(a), "r"(b) : "memory");
}

static float read_all(const float *source, size_t count) {
    lanes sum[8] = {{0}};
    size_t i = 0;
    for (; i + 8 * WIDTH <= count; i += 8 * WIDTH)
        for (int j = 0; j < 8; j++) sum[j] += *(const lanes *)(source + i + j * WIDTH);
    for (; i + WIDTH <= count; i += WIDTH) sum[0] += *(const lanes *)(source + i);
    float total = 0;
    for (; i < count; i++) total += source[i];
    for (int j = 0; j < 8; j++)
        for (int k = 0; k < WIDTH; k++) total += sum[j][k];
    return total;
}

/* As many writes as reads, or half as many: both at once. Else all reads, then all writes. */
static float stream_once(const float *source, float *target, size_t reads, size_t writes) {
    size_t i = 0;
    if (reads == writes) {
        for (; i + WIDTH <= writes; i += WIDTH)
            *(lanes *)(target + i) = *(const lanes *)(source + i) + 1.0f;
        for (; i < writes; i++) target[i] = source[i] + 1.0f;
        return 0;
    }
    if (reads == 2 * writes) {
        const float *other = source + writes;
        for (; i + WIDTH <= writes; i += WIDTH)
            *(lanes *)(target + i) = *(const lanes *)(source + i) + *(const lanes *)(other + i);
        for (; i < writes; i++) target[i] = source[i] + other[i];
        return 0;
    }
    float total = read_all(source, reads);
    for (; i + WIDTH <= writes; i += WIDTH) *(lanes *)(target + i) = (lanes){0} + total;
    for (; i < writes; i++) target[i] = total;
    return total;
}

static void *run_stream(void *argument) {
    struct job *job = argument;
    job->begin = now();
    for (long r = 0; r < job->repeats; r++) {
        job->sink += stream_once(job->source, job->target, job->reads, job->writes);
        barrier(job->source, job->target);
    }
    job->end = now();
    return NULL;
}

static void *run_fma(void *argument) {
    struct job *job = argument;
    lanes sum[ACCUMULATORS];
    lanes factor = (lanes){0} + 0.999f, term = (lanes){0} + 0.001f;
    for (int j = 0; j < ACCUMULATORS; j++) sum[j] = (lanes){0} + (float)j;
    barrier(&factor, &term);
    job->begin = now();
    for (long r = 0; r < job->repeats; r++)
        for (int j = 0; j < ACCUMULATORS; j++) sum[j] = sum[j] * factor + term;
    job->end = now();
    for (int j = 0; j < ACCUMULATORS; j++)
        for (int k = 0; k < WIDTH; k++) job->sink += sum[j][k];
    return NULL;
}

static double run(void *(*work)(void *), struct job *jobs, int threads) {
    pthread_t handles[MAX_THREADS];
    int started = 1;
    while (started < threads) {
        if (pthread_create(&handles[started], NULL, work, &jobs[started]) != 0) break;
        started++;
    }
    work(&jobs[0]);
    for (int t = 1; t < started; t++) pthread_join(handles[t], NULL);
    if (started < threads) return -1;
    double longest = 0;
    for (int t = 0; t < threads; t++) {
        double took = jobs[t].end - jobs[t].begin;
        if (took > longest) longest = took;
    }
    return longest;
}

/* Seconds for `repeats` passes that read and write so many floats, split among threads. */
double stream_seconds(const float *source, float *target, size_t reads, size_t writes, int threads,
                      long repeats) {
    struct job jobs[MAX_THREADS];
    if (threads < 1 || threads > MAX_THREADS) return -1;
    size_t source_at = 0, target_at = 0;
    for (int t = 0; t < threads; t++) {
        size_t source_end = reads * (size_t)(t + 1) / (size_t)threads;
        size_t target_end = writes * (size_t)(t + 1) / (size_t)threads;
        jobs[t] = (struct job){source + source_at,     target + target_at,
                               source_end - source_at, target_end - target_at,
                               repeats,                0, 0, 0};
        source_at = source_end;
        target_at = target_end;
    }
    return run(run_stream, jobs, threads);
}

/* Seconds for `repeats` steps of `fma_step_flops()` operations in each of the threads. */
double fma_seconds(int threads, long repeats) {
    struct job jobs[MAX_THREADS];
    if (threads < 1 || threads > MAX_THREADS) return -1;
    for (int t = 0; t < threads; t++) jobs[t] = (struct job){.repeats = repeats};
    return run(run_fma, jobs, threads);
}

long fma_step_flops(void) { return 2L * WIDTH * ACCUMULATORS; }
