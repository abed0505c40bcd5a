// Strings of which a careless writer makes something else than text. Each plants a command, ends
// what it stands in, or is no character that may stand there.
#pragma once

#include <string>
#include <vector>

namespace meshwright::tests {

// `planted` is a file that no planted command may make.
inline std::vector<std::string> hostile_strings(const std::string& planted) {
  const std::string touch = "touch " + planted;
  return {"a\n" + touch + " #",
          "a\r\n" + touch + " #",
          "a\r" + touch,
          "'; " + touch + "; '",
          "\"; " + touch + "; \"",
          "a'b\"c\\d",
          "$(" + touch + ")",
          "`" + touch + "`",
          "$((1+1)) ${HOME} $HOME",
          "$$(HOME) $(HOME)",
          "; " + touch,
          "&& " + touch,
          "| " + touch,
          "> " + planted,
          "a\n#SBATCH --wrap='" + touch + "'",
          "# not a comment",
          "-x",
          "--help",
          "-",
          "~",
          "!x",
          "* ? [a-z] {a,b}",
          "{{ x }} {% x %}",
          "%n%s",
          "</script><script>x</script><!-- <script>",
          "<img src=x onerror=x> &amp;",
          "a: b",
          "- a",
          "? a",
          "[a]",
          "{a: b}",
          "&a *a",
          "!!python/object:os.system",
          "|",
          ">-",
          "@a",
          "'",
          "\"",
          "\"\"\"",
          "yes",
          "null",
          "0x10",
          "1e5",
          ".inf",
          "a #b",
          "a = 1",
          "]]>",
          " a ",
          "\t",
          "",
          "a\x01\x1b[31m\x7f",
          "\xc2\x85\xc2\x9b",          // control characters of two bytes
          "\xe2\x80\xa8\xe2\x80\xa9",  // ends of lines for JavaScript and YAML
          "\xef\xbb\xbf\xef\xbf\xbe",  // a byte order mark, and what is no character
          "caf\xc3\xa9 \xe6\x9d\xb1 \xf0\x9f\x99\x82",
          std::string(20000, 'x')};
}

}  // namespace meshwright::tests
