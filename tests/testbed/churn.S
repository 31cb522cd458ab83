# An instance that no live migration catches up with: it writes to every page from 1 to 15 MiB, over and over.
# as --32 -o churn.o churn.S && ld -m elf_i386 --oformat binary -Ttext 0x7c00 -o churn churn.o
    .code16
    .globl _start
_start:
    cli
    xorw %ax, %ax
    movw %ax, %ds
    inb $0x92, %al              # all address lines
    orb $2, %al
    outb %al, $0x92
    lgdtl table
    movl %cr0, %eax
    orb $1, %al
    movl %eax, %cr0
    ljmpl $8, $flat
    .code32
flat:
    movw $16, %ax
    movw %ax, %ds
pass:
    movl $0x100000, %edi
page:
    incl (%edi)
    addl $4096, %edi
    cmpl $0xf00000, %edi
    jb page
    jmp pass

    .align 8
segments:
    .quad 0, 0x00cf9a000000ffff, 0x00cf92000000ffff
table:
    .word table - segments - 1
    .long segments
    .org 510
    .word 0xaa55
