"""Words that C, its library or the printed text needs; the names of compiled functions, which are none of them."""

from __future__ import annotations

import re

from dojoir.codegen.c.libc_words import LIBC

_KEYWORDS = """
auto break case char const continue default do double else enum extern float for goto if inline int long register
restrict return short signed sizeof static struct switch typedef union unsigned void volatile while
alignas alignof asm bool constexpr false nullptr static_assert thread_local true typeof typeof_unqual
"""

# Macros and types that the headers of the printed text, or a compiler with its GNU extensions on, may define.
_DEFINED = """
NULL NAN INFINITY HUGE MATH_ERRNO MATH_ERREXCEPT math_errhandling MB_CUR_MAX NFDBITS BIG_ENDIAN LITTLE_ENDIAN
PDP_ENDIAN BYTE_ORDER FD_CLR FD_ISSET FD_SET FD_SETSIZE FD_ZERO DOMAIN SING OVERFLOW UNDERFLOW PLOSS TLOSS X_TLOSS
WNOHANG WUNTRACED WSTOPPED WEXITED WCONTINUED WNOWAIT WEXITSTATUS WTERMSIG WSTOPSIG WIFEXITED WIFSIGNALED WIFSTOPPED
WIFCONTINUED WCOREDUMP linux unix i386
MAXFLOAT SNAN SNANF SNANL iscanonical iseqsig issignaling issubnormal iszero strdupa strndupa
fpclassify isfinite isgreater isgreaterequal isinf isless islessequal islessgreater isnan isnormal isunordered
signbit offsetof alloca be16toh be32toh be64toh htobe16 htobe32 htobe64 htole16 htole32 htole64 le16toh le32toh
le64toh div_t ldiv_t lldiv_t size_t ptrdiff_t max_align_t wchar_t float_t double_t
"""
_DEFINED_PATTERNS = re.compile(
    r"u?int(_least|_fast)?\d+_t|u?int(ptr|max)_t|u_?int\d+_t"
    r"|(U?INT|PTRDIFF|SIG_ATOMIC|WCHAR|WINT|SIZE|RAND)\w*_(MIN|MAX|C|WIDTH)"
    r"|(FP|HUGE|M|EXIT|SNAN|FLT|DBL|LDBL)_\w+|SNANF\d+X?"
    r"|[a-z][a-z0-9]*f(16|32|64|128)x?"  # of the mathematical functions
    r"|v\w+_[fsup](8|16|32|64)|(float|u?int|poly|bfloat)\d+(x\d+)*_t|v(u?int|float|bool)\w+_t"  # of Arm, RISC-V
)

# What the printed text itself calls or declares.
_PRINTED = """
status allocate product free aligned_alloc memcpy stream stream_fence prefetch_read prefetch_write
sqrt floor ceil rint fabs fma sqrtf floorf ceilf rintf fabsf fmaf
"""
_PRINTED_PATTERNS = re.compile(
    r"(add|sub|mul|neg|abs|shl|shr|sar|not|floordiv|mod|max|min|larger|smaller)_[fiu]\d+"
    r"|[fiu]\d+_(from|as)_[fiu]\d+"
)

# Functions of the C library: a kernel must not define one of them again.
_MATH = """
acos asin atan atan2 cos sin tan acosh asinh atanh cosh sinh tanh exp exp2 expm1 frexp ilogb ldexp log log10 log1p
log2 logb modf scalbn scalbln cbrt fabs hypot pow sqrt erf erfc lgamma tgamma ceil floor nearbyint rint lrint llrint
round lround llround trunc fmod remainder remquo copysign nan nextafter nexttoward fdim fmax fmin fma
gamma drem significand scalb j0 j1 jn y0 y1 yn exp10 pow10 sincos
cabs cacos cacosh carg casin casinh catan catanh ccos ccosh cexp cimag clog clog10 conj cpow cproj creal csin csinh
csqrt ctan ctanh finite isinf isnan
"""
_LIBRARY = """
abort abs at_quick_exit atexit atof atoi atol atoll bsearch calloc div exit free getenv labs ldiv llabs lldiv malloc
mblen mbstowcs mbtowc qsort quick_exit rand realloc srand strtod strtof strtol strtold strtoll strtoul strtoull
system wcstombs wctomb aligned_alloc memchr memcmp memcpy memmove memset strcat strchr strcmp strcoll strcpy strcspn
strerror strlen strncat strncmp strncpy strpbrk strrchr strspn strstr strtok strxfrm isalnum isalpha isascii isblank
iscntrl isdigit isgraph islower isprint ispunct isspace isupper isxdigit tolower toupper toascii printf fprintf
sprintf snprintf scanf fscanf sscanf vprintf vfprintf vsprintf vsnprintf puts fputs putc fputc putchar gets getc
getchar fopen fclose fread fwrite remove rename signal raise setjmp longjmp time clock
index rindex bcmp bcopy bzero ffs ffsl ffsll mempcpy stpcpy stpncpy strcasecmp strdup strncasecmp strndup strsep
dojo_parallel_for
select pselect random srandom initstate setstate drand48 erand48 lrand48 nrand48 mrand48 jrand48 srand48 seed48
lcong48 rand_r alloca valloc mktemp mkstemp mkdtemp putenv setenv unsetenv clearenv realpath a64l l64a ecvt fcvt
gcvt getsubopt getloadavg grantpt unlockpt ptsname rpmatch dup fork vfork execl execlp execle execv execvp execve
dcgettext dgettext gettext strfmon read write open close link pause sleep access main
"""

LOCAL_WORDS = frozenset((_KEYWORDS + _DEFINED + _PRINTED).split())
_EXTERNAL_WORDS = LOCAL_WORDS | LIBC | frozenset(_LIBRARY.split())
_EXTERNAL_WORDS |= frozenset(name + suffix for name in _MATH.split() for suffix in ("", "f", "l"))


def symbol(name: str) -> str:
    """The name of the compiled function of kernel `name`: itself, unless C has it already."""
    plain = plain_name(name)
    return f"{plain}_kernel" if plain in _EXTERNAL_WORDS or is_patterned(plain) else plain


def is_patterned(name: str) -> bool:
    if name.endswith("_"):
        return False
    return bool(_DEFINED_PATTERNS.fullmatch(name) or _PRINTED_PATTERNS.fullmatch(name))


def plain_name(name: str) -> str:
    """`name` in the letters of C, not beginning as a reserved name does."""
    plain = re.sub(r"[^A-Za-z0-9_]", "_", name)
    return f"v{plain}" if not plain or plain[0] in "_0123456789" else plain
