// stdin, stdout and stderr of the module itself, with the values of libc's. Debian's archive of
// HDF5 is compiled for executables, which read these three from a fixed place within themselves;
// all else in it may be in a shared library.

#include <cstdio>

extern "C" {
extern FILE _IO_2_1_stdin_, _IO_2_1_stdout_, _IO_2_1_stderr_;  // where libc keeps them
[[gnu::visibility("hidden")]] extern FILE* own_stdin asm("stdin");
[[gnu::visibility("hidden")]] extern FILE* own_stdout asm("stdout");
[[gnu::visibility("hidden")]] extern FILE* own_stderr asm("stderr");
FILE* own_stdin = &_IO_2_1_stdin_;
FILE* own_stdout = &_IO_2_1_stdout_;
FILE* own_stderr = &_IO_2_1_stderr_;
}
