; Entry, vectors and the vertical blank. Stack C0FF downwards, compiler data from C100.
	.module	crt0
	.globl	_main, _frames

	.area	_HEADER (ABS)
	.org	0x40
	jp	vblank
	.org	0x48
	reti
	.org	0x50
	reti
	.org	0x58
	reti
	.org	0x60
	reti
	.org	0x100
	nop
	jp	start

	.org	0x150
start:
	di
	ld	sp, #0xC0FF
	; Clear work RAM, so that a run depends on its inputs only.
	ld	hl, #0xC000
	ld	bc, #0x1FFF
1$:
	xor	a
	ld	(hl+), a
	dec	bc
	ld	a, b
	or	c
	jr	nz, 1$
	ld	a, #1
	ldh	(0x70), a
	ldh	(0xFF), a
	ei
	call	_main
2$:
	jr	2$

vblank:
	push	af
	push	hl
	ld	hl, #_frames
	inc	(hl)
	pop	hl
	pop	af
	reti

	.area	_HOME
	.area	_CODE
	.area	_INITIALIZER
	.area	_GSINIT
	.area	_GSFINAL
	.area	_DATA
	.area	_INITIALIZED
	.area	_BSS
	.area	_HEAP
