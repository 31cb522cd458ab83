# A boot sector that counts: each second about four times, in memory and in the second sector of its disk, and tells
# "BOOTS:COUNT" in hexadecimal on its serial port, with "!" before a count that it could not write.
# Assembled: as --32 tick.S -o t.o && ld -m elf_i386 -Ttext 0x7c00 --oformat binary -o tick.bin t.o
    .code16
    .globl _start
_start:
    cli
    xorw %ax, %ax
    movw %ax, %ds
    movw %ax, %es
    movw %ax, %ss
    movw $0x7c00, %sp
    sti
    movb %dl, drive
    movb $0x42, %ah
    call disk
    incl 0x8004
again:
    incl 0x8000
    movb $0x43, %ah
    call disk
    jnc fine
    movb $'!', %al
    call put
fine:
    movl 0x8004, %ebx
    call hex
    movb $':', %al
    call put
    movl 0x8000, %ebx
    call hex
    movb $'\r', %al
    call put
    movb $'\n', %al
    call put
    movl 0x46c, %ecx
wait:
    hlt
    movl 0x46c, %eax
    subl %ecx, %eax
    cmpl $4, %eax
    jb wait
    jmp again
disk:
    xorb %al, %al
    movb drive, %dl
    movw $packet, %si
    int $0x13
    ret
hex:
    movb $8, %cl
1:  roll $4, %ebx
    movb %bl, %al
    andb $15, %al
    cmpb $10, %al
    jb 2f
    addb $7, %al
2:  addb $'0', %al
    call put
    decb %cl
    jnz 1b
    ret
put:
    movb %al, %ch
    movw $0x3fd, %dx
3:  inb %dx, %al
    testb $0x20, %al
    jz 3b
    movw $0x3f8, %dx
    movb %ch, %al
    outb %al, %dx
    ret
packet:
    .byte 16, 0
    .word 1
    .word 0x8000, 0
    .long 1, 0
drive:
    .byte 0
    .org 510
    .word 0xaa55
