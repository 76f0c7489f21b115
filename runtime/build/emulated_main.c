// The program that an emulator runs: it makes the calls that stand in a file. It is Linux's system calls and what
// the kernels need of C's library, and nothing else, so that a cross compiler has no library to build first.
//
// The file: the number of calls; for each the number of the kernel and of its arguments, then every argument as a
// number of bytes and that many bytes. The status of a call takes the place of its kernel's number.
#include <stddef.h>
#include <stdint.h>

int32_t call(int64_t kernel, void **a);

#if defined(__aarch64__)
__asm__(".globl _start\n_start:\n    mov x0, sp\n    bl start\n");
#define NUMBER "x8"
#define ARGUMENT(n) "x" #n
#define TRAP "svc #0"
#elif defined(__riscv)
__asm__(".globl _start\n_start:\n    mv a0, sp\n    call start\n");
#define NUMBER "a7"
#define ARGUMENT(n) "a" #n
#define TRAP "ecall"
#endif

enum { OPENAT = 56, LSEEK = 62, EXIT = 94, MUNMAP = 215, MMAP = 222 };

static long ask(long what, long a, long b, long c, long d, long e, long f)
{
    register long number __asm__(NUMBER) = what;
    register long result __asm__(ARGUMENT(0)) = a;
    register long second __asm__(ARGUMENT(1)) = b;
    register long third __asm__(ARGUMENT(2)) = c;
    register long fourth __asm__(ARGUMENT(3)) = d;
    register long fifth __asm__(ARGUMENT(4)) = e;
    register long sixth __asm__(ARGUMENT(5)) = f;
    __asm__ volatile(TRAP
                     : "+r"(result)
                     : "r"(number), "r"(second), "r"(third), "r"(fourth), "r"(fifth), "r"(sixth)
                     : "memory");
    return result;
}

// -- memory: each block has pages of its own, and its size stands in the page before it
enum { PAGE = 4096 };

void *aligned_alloc(size_t align, size_t size)
{
    if (align > PAGE || size > SIZE_MAX / 4)
        return NULL;
    const size_t whole = (size + 2 * PAGE - 1) / PAGE * PAGE;
    const long where = ask(MMAP, 0, (long)whole, 3, 0x22, -1, 0);
    if (where < 0 && where > -PAGE)
        return NULL;
    *(size_t *)where = whole;
    return (char *)where + PAGE;
}

void free(void *block)
{
    if (block != NULL)
        ask(MUNMAP, (long)((char *)block - PAGE), (long)*(size_t *)((char *)block - PAGE), 0, 0, 0, 0);
}

__attribute__((no_builtin)) void *memcpy(void *restrict to, const void *restrict from, size_t bytes)
{
    for (size_t i = 0; i < bytes; i++)
        ((char *)to)[i] = ((const char *)from)[i];
    return to;
}

__attribute__((no_builtin)) void *memset(void *to, int byte, size_t bytes)
{
    for (size_t i = 0; i < bytes; i++)
        ((char *)to)[i] = (char)byte;
    return to;
}

__attribute__((no_builtin)) void *memmove(void *to, const void *from, size_t bytes)
{
    if ((uintptr_t)to <= (uintptr_t)from)
        return memcpy(to, from, bytes);
    for (size_t i = bytes; i > 0; i--)
        ((char *)to)[i - 1] = ((const char *)from)[i - 1];
    return to;
}

// -- rounding, where the processor has no instruction for it. An f32 rounds as an f64 does.
#if defined(__riscv)
static double whole(double x, double offset)
{
    if (!(__builtin_fabs(x) < 0x1p52))
        return x;
    const double nearest = __builtin_copysign((__builtin_fabs(x) + 0x1p52) - 0x1p52, x);
    double result = nearest;
    if (offset < 0 && nearest > x)
        result = nearest - 1;
    if (offset > 0 && nearest < x)
        result = nearest + 1;
    return __builtin_copysign(result, x);
}

double floor(double x) { return whole(x, -1); }
double ceil(double x) { return whole(x, 1); }
double rint(double x) { return whole(x, 0); }
float floorf(float x) { return (float)whole(x, -1); }
float ceilf(float x) { return (float)whole(x, 1); }
float rintf(float x) { return (float)whole(x, 0); }
#endif

// -- calls
static int64_t number(const char **at)
{
    int64_t value;
    memcpy(&value, *at, sizeof value);
    *at += sizeof value;
    return value;
}

static long run(const char *path)
{
    const long file = ask(OPENAT, -100, (long)path, 2, 0, 0, 0);
    const long size = ask(LSEEK, file, 0, 2, 0, 0, 0);
    char *data = (char *)ask(MMAP, 0, size, 3, 1, file, 0);
    if (file < 0 || size < 8 || ((long)data < 0 && (long)data > -PAGE))
        return 102;
    const char *at = data;
    for (int64_t calls = number(&at); calls > 0; calls--) {
        char *start = data + (at - data);
        const int64_t kernel = number(&at), count = number(&at);
        char *places[64];
        void *a[64];
        int64_t bytes[64];
        for (int64_t n = 0; n < count; n++) {
            bytes[n] = number(&at);
            places[n] = data + (at - data);
            a[n] = aligned_alloc(64, (size_t)bytes[n]);
            if (a[n] == NULL)
                return 103;
            memcpy(a[n], at, (size_t)bytes[n]);
            at += bytes[n];
        }
        const int64_t status = call(kernel, a);
        memcpy(start, &status, sizeof status);
        for (int64_t n = 0; n < count; n++) {
            memcpy(places[n], a[n], (size_t)bytes[n]);
            free(a[n]);
        }
    }
    return 0;
}

__attribute__((used)) void start(long *stack)
{
    ask(EXIT, run((const char *)stack[2]), 0, 0, 0, 0, 0);
}
