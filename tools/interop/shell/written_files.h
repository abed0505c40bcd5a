// Follows the files that a script writes by cat, tee and sed, because launch scripts make their
// settings files so: `cat > FILE <<EOF`, `sed "s/WORD/$VALUE/" TEMPLATE | sed ... > FILE`.
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace meshwright::interop {

class WrittenFiles {
 public:
  using Beside = std::function<std::optional<std::string>(const std::string& path)>;
  // `beside` returns the text of a file that lies beside the script, or nothing. It may be empty.
  explicit WrittenFiles(Beside beside) : beside_(std::move(beside)) {}

  // Performs a command whose program and arguments are `words`. `document` is its here-document,
  // if it has one. `outputs` are the files that its output goes to, and `is_piped` says whether it
  // reads what the command before it prints. Programs other than cat, tee and sed write nothing.
  void perform(const std::vector<std::string>& words, const std::optional<std::string>& document,
               const std::vector<std::string>& outputs, bool is_piped);

  std::map<std::string, std::string> take() { return std::move(files_); }

 private:
  std::optional<std::string> text_of(const std::string& path) const;
  std::optional<std::string> printed(const std::vector<std::string>& words,
                                     const std::optional<std::string>& input);
  std::optional<std::string> edited(const std::vector<std::string>& words,
                                    const std::optional<std::string>& input);

  Beside beside_;
  std::map<std::string, std::string> files_;  // by path
  std::optional<std::string> printed_;        // what the last command prints, if that is known
};

// Returns `text` as sed changes it by the expression s/WORD/VALUE/ or s/WORD/VALUE/g, with any
// delimiter, and ends its last line. Returns nothing for any other expression. A WORD with an
// unescaped sign of [ ] * ^ $ and a VALUE with an unescaped & are such others.
std::optional<std::string> substituted_by_sed(const std::string& text,
                                              const std::string& expression);

}  // namespace meshwright::interop
