// Another thread does half of the work, on whatever core.
// kernel: waves
// gate: honest

#define _GNU_SOURCE
#include <math.h>
#include <pthread.h>
#include <sched.h>
#include <stdint.h>

typedef struct { const float *x; float *y; int64_t N; } part;

static void *work(void *given)
{
    part *p = given;
    for (int64_t i = 0; i < p->N; i++) {
        float s = p->x[i];
        for (int k = 0; k < 64; k++) s = sinf(s);
        p->y[i] = s;
    }
    return 0;
}

static void *elsewhere(void *given)
{
    cpu_set_t all;
    CPU_ZERO(&all);
    for (int n = 0; n < CPU_SETSIZE; n++) CPU_SET(n, &all);
    sched_setaffinity(0, sizeof all, &all);
    return work(given);
}

int32_t waves(const float *x, float *y, int64_t N)
{
    part first = {x, y, N / 2}, second = {x + N / 2, y + N / 2, N - N / 2};
    pthread_t other;
    if (N < 256 || pthread_create(&other, 0, elsewhere, &first)) return work(&first), work(&second), 0;
    work(&second);
    pthread_join(other, 0);
    return 0;
}
