	.file	"<string>"
	.section	.rodata.cst16,"aM",@progbits,16
	.p2align	4, 0x0
.LCPI0_0:
	.byte	0
	.byte	1
	.byte	2
	.byte	3
	.byte	4
	.byte	5
	.byte	6
	.byte	7
	.byte	8
	.byte	9
	.byte	10
	.byte	11
	.byte	12
	.byte	13
	.byte	14
	.byte	15
	.section	.rodata.cst4,"aM",@progbits,4
	.p2align	2, 0x0
.LCPI0_1:
	.long	0x7fffffff
	.text
	.globl	relu
	.p2align	4
	.type	relu,@function
relu:
	leaq	15(%rdx), %rcx
	shrq	$4, %rcx
	je	.LBB0_15
	cmpq	$1, %rcx
	jne	.LBB0_3
	xorl	%eax, %eax
	jmp	.LBB0_12
.LBB0_3:
	movq	%rcx, %r8
	andq	$-2, %r8
	movl	$16, %r9d
	xorl	%eax, %eax
	vxorps	%xmm0, %xmm0, %xmm0
	vbroadcastss	.LCPI0_1(%rip), %zmm1
	vmovdqa	.LCPI0_0(%rip), %xmm2
	movq	%rdx, %r10
	jmp	.LBB0_4
	.p2align	4
.LBB0_9:
	vmovups	(%rdi,%r9,4), %zmm3
	vcmpnltps	%zmm0, %zmm3, %k1
	vandps	%zmm1, %zmm3, %zmm3 {%k1} {z}
	vmovups	%zmm3, (%rsi,%r9,4)
.LBB0_10:
	addq	$2, %rax
	addq	$32, %r9
	addq	$-32, %r10
	cmpq	%rax, %r8
	je	.LBB0_11
.LBB0_4:
	cmpq	$16, %r10
	jl	.LBB0_6
	vmovups	-64(%rdi,%r9,4), %zmm3
	vcmpnltps	%zmm0, %zmm3, %k1
	vandps	%zmm1, %zmm3, %zmm3 {%k1} {z}
	vmovups	%zmm3, -64(%rsi,%r9,4)
	leaq	-16(%r10), %r11
	cmpq	$15, %r11
	jg	.LBB0_9
	jmp	.LBB0_8
	.p2align	4
.LBB0_6:
	vpbroadcastb	%r10d, %xmm3
	vpcmpnleub	%xmm2, %xmm3, %k1
	vmovups	-64(%rdi,%r9,4), %zmm3 {%k1} {z}
	vcmpnltps	%zmm0, %zmm3, %k2
	vandps	%zmm1, %zmm3, %zmm3 {%k2} {z}
	vmovups	%zmm3, -64(%rsi,%r9,4) {%k1}
	leaq	-16(%r10), %r11
	cmpq	$15, %r11
	jg	.LBB0_9
.LBB0_8:
	leal	-16(%r10), %r11d
	vpbroadcastb	%r11d, %xmm3
	vpcmpnleub	%xmm2, %xmm3, %k1
	vmovups	(%rdi,%r9,4), %zmm3 {%k1} {z}
	vcmpnltps	%zmm0, %zmm3, %k2
	vandps	%zmm1, %zmm3, %zmm3 {%k2} {z}
	vmovups	%zmm3, (%rsi,%r9,4) {%k1}
	jmp	.LBB0_10
.LBB0_11:
	testb	$1, %cl
	je	.LBB0_15
.LBB0_12:
	shlq	$4, %rax
	subq	%rax, %rdx
	cmpq	$15, %rdx
	jle	.LBB0_13
	vmovups	(%rdi,%rax,4), %zmm0
	vxorps	%xmm1, %xmm1, %xmm1
	vcmpnltps	%zmm1, %zmm0, %k1
	vandps	.LCPI0_1(%rip){1to16}, %zmm0, %zmm0 {%k1} {z}
	vmovups	%zmm0, (%rsi,%rax,4)
.LBB0_15:
	xorl	%eax, %eax
	vzeroupper
	retq
.LBB0_13:
	vpbroadcastb	%edx, %xmm0
	vpcmpnleub	.LCPI0_0(%rip), %xmm0, %k1
	vmovups	(%rdi,%rax,4), %zmm0 {%k1} {z}
	vxorps	%xmm1, %xmm1, %xmm1
	vcmpnltps	%zmm1, %zmm0, %k2
	vandps	.LCPI0_1(%rip){1to16}, %zmm0, %zmm0 {%k2} {z}
	vmovups	%zmm0, (%rsi,%rax,4) {%k1}
	xorl	%eax, %eax
	vzeroupper
	retq
.Lfunc_end0:
	.size	relu, .Lfunc_end0-relu

	.section	".note.GNU-stack","",@progbits
