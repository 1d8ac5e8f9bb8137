#include <doctest/doctest.h>

#include "cli/words.hpp"

using namespace attn::cli;

TEST_CASE("edit distance") {
  CHECK(edit_distance("", "") == 0);
  CHECK(edit_distance("", "abc") == 3);
  CHECK(edit_distance("abc", "") == 3);
  CHECK(edit_distance("force", "force") == 0);
  CHECK(edit_distance("forse", "force") == 1);
  CHECK(edit_distance("froce", "force") == 1);
  CHECK(edit_distance("kitten", "sitting") == 3);
  CHECK(edit_distance("foo", "force") == 3);
}

TEST_CASE("the nearest known word") {
  const std::vector<std::string> names = {"force", "iterations", "tolerance", "threads", "tmpdir"};
  CHECK(nearest("forse", names) == "force");
  CHECK(nearest("iteratoins", names) == "iterations");
  CHECK(nearest("thread", names) == "threads");
  CHECK(nearest("tolerence", names) == "tolerance");
  CHECK(nearest("iter", names) == "iterations");
  CHECK(nearest("t", names) == "");
  CHECK(nearest("", names) == "");
  CHECK(nearest("foo", names) == "");
  CHECK(nearest("unrelated", names) == "");
}

TEST_CASE("messages stay on one line") {
  CHECK(one_line("plain text") == "plain text");
  CHECK(one_line("two\nlines") == "two lines");
  CHECK(one_line("two \r\n\t lines") == "two lines");
  CHECK(one_line("end\n") == "end");
  CHECK(one_line("\nbegin") == "begin");
  CHECK(one_line("bell\a and \x1b[31m") == "bell? and ?[31m");
  CHECK(one_line("\xce\xbb \xe2\x89\xa5 0") == "\xce\xbb \xe2\x89\xa5 0");
  // A line separator, an order of writing, an overlong form, a surrogate.
  CHECK(one_line("a\xe2\x80\xa8"
                 "b\xe2\x80\xa9") == "a???b???");
  CHECK(one_line("a\xe2\x80\xae"
                 "b\xe2\x81\xa6") == "a???b???");
  CHECK(one_line("\xe0\x80\xaf") == "???");
  CHECK(one_line("\xed\xa0\x80") == "???");
}

TEST_CASE("words quoted for a shell") {
  CHECK(shell_quoted("plain") == "plain");
  CHECK(shell_quoted("q=8x2048x64") == "q=8x2048x64");
  CHECK(shell_quoted("-i") == "-i");
  CHECK(shell_quoted("") == "''");
  CHECK(shell_quoted("a b") == "'a b'");
  CHECK(shell_quoted("1.8,0.7;-1,-1") == "'1.8,0.7;-1,-1'");
  CHECK(shell_quoted("it's") == "'it'\\''s'");
  CHECK(shell_quoted("k.h5:/k[0:2]") == "'k.h5:/k[0:2]'");
  CHECK(shell_quoted("\xce\xbb") == "'\xce\xbb'");
  CHECK(shell_quoted("a\xc2\x9b?") == "$'a\\302\\233?'");
  CHECK(shell_quoted("two\nlines") == "$'two\\012lines'");
  CHECK(shell_quoted("it's\ta\\b") == "$'it\\'s\\011a\\\\b'");
  CHECK(shell_quoted("bad\xff"
                     "1") == "$'bad\\3771'");
}

TEST_CASE("wrapping counts columns, not bytes") {
  CHECK(wrapped("one two three", 7, 0) == "one two\nthree");
  CHECK(wrapped("one two three", 7, 2) == "one two\n  three");
  CHECK(wrapped("one  two", 80, 0) == "one two");
  CHECK(wrapped("unbreakable word", 4, 0) == "unbreakable\nword");
  CHECK(wrapped("a\nb", 80, 1) == "a\n b");
  CHECK(wrapped("\xce\xbb\xce\xbb\xce\xbb \xce\xbb", 5, 0) == "\xce\xbb\xce\xbb\xce\xbb \xce\xbb");
  CHECK(width("\xce\xbb\xe2\x89\xa5x") == 3);
}

TEST_CASE("counts and their nouns") {
  CHECK(counted(0, "head") == "0 heads");
  CHECK(counted(1, "head") == "1 head");
  CHECK(counted(std::size_t{12}, "head") == "12 heads");
  CHECK(counted(1L, "query has", "queries have") == "1 query has");
  CHECK(counted(2L, "query has", "queries have") == "2 queries have");
}
