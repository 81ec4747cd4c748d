# SPDX-License-Identifier: GPL-2.0-only
# A build: make has 16 jobs assemble 48 files and link them.
mkdir /tmp/make; cd /tmp/make
line=0
while [ $line -lt 150 ]; do
    echo "movq \$$line, %rax; addq %rax, %rbx"
    line=$((line + 1))
done >body
file=0
while [ $file -lt 48 ]; do
    { echo ".globl f$file; f$file:"; cat body; echo ret; } >f$file.s
    file=$((file + 1))
done
cat >Makefile <<'END'
all.o: $(patsubst %.s,%.o,$(wildcard *.s))
	ld -r -o $@ $^
%.o: %.s
	as -o $@ $<
END
exec make -s -j 16
