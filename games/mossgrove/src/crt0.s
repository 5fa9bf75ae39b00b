; Entry, interrupt vectors and the vertical blank: the only hand-written assembly of the game.
; Memory: stack C2C0 downwards, palettes C000, sprites C300, tile queue C400, compiler data from D600 (bank 1).

	.module	crt0
	.globl	_main
	.globl	_frame_ready, _frame_done, _queue_count, _palette_dirty
	.globl	_sprites_used, _camera_moves, _sprite8_scrolled, _sprite16_scrolled
	.globl	_me_flies, _metatile_type
	.globl	_unpack, _unpack_rooms, _fetch, _me_load, _me_store, _me, _packed_rooms
	.globl	_scroll_x, _scroll_y, _window_y

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
	ld	sp, #0xC2C0
	; Clear the fixed bank and all seven switchable ones, so that a run depends on its inputs only.
	ld	hl, #0xC000
	ld	bc, #0x1000
1$:
	xor	a
	ld	(hl+), a
	dec	bc
	ld	a, b
	or	c
	jr	nz, 1$
	ld	d, #7
2$:
	ld	a, d
	ldh	(0x70), a
	ld	hl, #0xD000
	ld	bc, #0x1000
3$:
	xor	a
	ld	(hl+), a
	dec	bc
	ld	a, b
	or	c
	jr	nz, 3$
	dec	d
	jr	nz, 2$
	ld	a, #1
	ldh	(0x70), a
	ld	hl, #0xFF80
	ld	b, #0x7F
	xor	a
4$:
	ld	(hl+), a
	dec	b
	jr	nz, 4$
	; The sprite transfer has to run from high memory.
	ld	hl, #dma_code
	ld	de, #0xFF80
	ld	b, #10
5$:
	ld	a, (hl+)
	ld	(de), a
	inc	de
	dec	b
	jr	nz, 5$
	call	_main
	jr	start

dma_code:
	ld	a, #0xC3
	ldh	(0x46), a
	ld	a, #0x28
6$:
	dec	a
	jr	nz, 6$
	ret

; Everything that needs the picture unit happens here, and only when the frame is complete.
vblank:
	push	af
	push	bc
	push	de
	push	hl
	ld	a, #1
	ld	(_frame_done), a
	ld	a, (_frame_ready)
	or	a
	jp	z, vblank_end
	xor	a
	ld	(_frame_ready), a
	call	0xFF80
	ld	a, (_scroll_x)
	ldh	(0x43), a
	ld	a, (_scroll_y)
	ldh	(0x42), a
	ld	a, (_window_y)
	ldh	(0x4A), a
	; Queue entries: address low, address high, tile, attribute.
	ld	a, (_queue_count)
	or	a
	jr	z, palettes
	ld	b, a
	ld	hl, #0xC400
7$:
	ld	a, (hl+)
	ld	e, a
	ld	a, (hl+)
	ld	d, a
	ld	a, (hl+)
	ld	(de), a
	ld	a, #1
	ldh	(0x4F), a
	ld	a, (hl+)
	ld	(de), a
	xor	a
	ldh	(0x4F), a
	dec	b
	jr	nz, 7$
	ld	(_queue_count), a
	jr	vblank_end	; palettes wait for a frame with no tiles: both do not fit one blank
palettes:
	ld	a, (_palette_dirty)
	bit	0, a
	jr	z, 8$
	and	#0xFE
	ld	(_palette_dirty), a
	ld	hl, #0xC000
	ld	c, #0x68
	jr	9$
8$:
	bit	1, a
	jr	z, vblank_end
	and	#0xFD
	ld	(_palette_dirty), a
	ld	hl, #0xC040
	ld	c, #0x6A
9$:
	ld	a, #0x80
	ldh	(c), a
	inc	c
	ld	b, #64
10$:
	ld	a, (hl+)
	ldh	(c), a
	dec	b
	jr	nz, 10$
vblank_end:
	pop	hl
	pop	de
	pop	bc
	pop	af
	reti

	.area	_CODE
; void unpack(u8 *to, const u8 *from): runs of n bytes (1-127) and repeats (128 + length - 2, distance); 0 ends.
_unpack::
11$:
	ld	a, (bc)
	inc	bc
	or	a
	ret	z
	bit	7, a
	jr	nz, 13$
	ld	l, a
12$:
	ld	a, (bc)
	ld	(de), a
	inc	bc
	inc	de
	dec	l
	jr	nz, 12$
	jr	11$
13$:
	and	#0x7F
	add	a, #2
	ldh	(0x8F), a	; length, in high memory beside the transfer code
	ld	a, (bc)
	inc	bc
	ld	l, a
	ld	a, e
	sub	l
	ld	l, a
	ld	a, d
	sbc	a, #0
	ld	h, a
14$:
	ld	a, (hl+)
	ld	(de), a
	inc	de
	ldh	a, (0x8F)
	dec	a
	ldh	(0x8F), a
	jr	nz, 14$
	jr	11$

; void unpack_rooms(void): into bank 2, from D000.
_unpack_rooms::
	ld	a, #2
	ldh	(0x70), a
	ld	de, #0xD000
	ld	bc, #_packed_rooms
	call	_unpack
	ld	a, #1
	ldh	(0x70), a
	ret

; void fetch(const u8 *room): its 80 bytes from bank 2 to C080.
_fetch::
	di
	ld	a, #2
	ldh	(0x70), a
	ld	hl, #0xC080
	ld	b, #80
15$:
	ld	a, (de)
	ld	(hl+), a
	inc	de
	dec	b
	jr	nz, 15$
	ld	a, #1
	ldh	(0x70), a
	ei
	ret

; void me_load(const struct object *from), void me_store(struct object *to): the fields in use, 00-13 and 28-2F.
; An object never crosses a page.
_me_load::
	ld	hl, #_me
	ld	b, #5
	call	16$
	ld	a, e
	add	a, #0x14
	ld	e, a
	ld	hl, #_me + 0x28
	ld	b, #2
16$:
	ld	a, (de)
	ld	(hl+), a
	inc	e
	ld	a, (de)
	ld	(hl+), a
	inc	e
	ld	a, (de)
	ld	(hl+), a
	inc	e
	ld	a, (de)
	ld	(hl+), a
	inc	e
	dec	b
	jr	nz, 16$
	ret

_me_store::
	ld	hl, #_me
	ld	b, #5
	call	17$
	ld	a, e
	add	a, #0x14
	ld	e, a
	ld	hl, #_me + 0x28
	ld	b, #2
17$:
	ld	a, (hl+)
	ld	(de), a
	inc	e
	ld	a, (hl+)
	ld	(de), a
	inc	e
	ld	a, (hl+)
	ld	(de), a
	inc	e
	ld	a, (hl+)
	ld	(de), a
	inc	e
	dec	b
	jr	nz, 17$
	ret

; u8 blocked(u8 y, u8 x): whether an enemy may not be at that pixel: near the room's edge, on anything solid,
; and, unless me_flies, over a hole.
_blocked::
	cp	a, #10
	jr	c, 24$
	cp	a, #119
	jr	nc, 24$
	ld	d, a
	ld	a, e
	cp	a, #10
	jr	c, 24$
	cp	a, #151
	jr	nc, 24$
	swap	a
	and	a, #0x0F
	ld	l, a
	ld	a, d
	and	a, #0xF0
	or	a, l
	ld	l, a
	ld	h, #0xCE
	ld	a, (hl)
	or	a, a
	ret	nz
	ld	a, (_me_flies)
	or	a, a
	jr	nz, 23$
	inc	h
	ld	l, (hl)
	ld	h, #0
	ld	de, #_metatile_type
	add	hl, de
	ld	a, (hl)
	dec	a
	jr	z, 24$
23$:
	xor	a, a
	ret
24$:
	ld	a, #1
	ret

; u8 solid(u8 y, u8 x): whether the quarter of a metatile at that pixel blocks; outside the room nothing does.
_solid::
	cp	a, #128
	jr	nc, 19$
	ld	d, a
	ld	a, e
	cp	a, #160
	jr	nc, 19$
	swap	a
	and	a, #0x0F
	ld	l, a
	ld	a, d
	and	a, #0xF0
	or	a, l
	ld	l, a
	ld	h, #0xCE
	ld	a, (hl)
	or	a, a
	ret	z
	cp	a, #0x0F
	ret	z
	bit	3, d
	jr	nz, 18$
	srl	a
	srl	a
18$:
	bit	3, e
	jr	nz, 20$
	and	a, #2
	ret
20$:
	and	a, #1
	ret
19$:
	xor	a, a
	ret

; void sprite8(u8 y, u8 x, u8 tile, u8 attribute), void sprite16(...): entries of the sprite shadow at C300.
; While a room scrolls in, the C versions do it, which know the camera.
_sprite8::
	ld	b, a
	ld	a, (_camera_moves)
	or	a, a
	ld	a, b
	jp	nz, _sprite8_scrolled
	ldhl	sp, #2
	ld	c, (hl)
	inc	hl
	ld	d, (hl)
	ld	a, (_sprites_used)
	cp	a, #40
	jr	nc, sprites_done
	inc	a
	ld	(_sprites_used), a
	dec	a
	add	a, a
	add	a, a
	ld	l, a
	ld	h, #0xC3
	ld	a, b
	add	a, #8
	ld	(hl+), a
	ld	a, e
	add	a, #4
	ld	(hl+), a
	ld	a, c
	ld	(hl+), a
	ld	(hl), d
	jr	sprites_done

_sprite16::
	ld	b, a
	ld	a, (_camera_moves)
	or	a, a
	ld	a, b
	jp	nz, _sprite16_scrolled
	ldhl	sp, #2
	ld	c, (hl)
	inc	hl
	ld	d, (hl)
	ld	a, (_sprites_used)
	cp	a, #39
	jr	nc, sprites_done
	add	a, #2
	ld	(_sprites_used), a
	sub	a, #2
	add	a, a
	add	a, a
	ld	l, a
	ld	h, #0xC3
	ld	a, b
	add	a, #8
	ld	b, a
	bit	5, d		; mirrored: the right half comes first
	jr	z, 21$
	inc	c
	inc	c
21$:
	ld	(hl+), a
	ld	a, e
	ld	(hl+), a
	ld	a, c
	ld	(hl+), a
	ld	a, d
	ld	(hl+), a
	ld	a, b
	ld	(hl+), a
	ld	a, e
	add	a, #8
	ld	(hl+), a
	ld	a, c
	xor	a, #2
	ld	(hl+), a
	ld	(hl), d
sprites_done:
	pop	hl
	inc	sp
	inc	sp
	jp	(hl)

	.area	_HOME
	.area	_BASE
	.area	_GSINIT
	.area	_GSFINAL
	.area	_INITIALIZER
	.area	_DATA
	.area	_BSS
	.area	_INITIALIZED
	.area	_HEAP
