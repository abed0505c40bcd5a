#include <algorithm>
#include <cctype>
#include <cstddef>
#include <iterator>
#include <map>

#include "models/core/error.h"
#include "models/core/fields.h"
#include "tools/interop/formats/formats.h"
#include "tools/interop/formats/text.h"
#include "tools/interop/shell/syntax.h"

namespace meshwright::interop {

namespace {

// An iterator over the characters of a text, which counts the lines that are read.
class CountedCharacter {
 public:
  using iterator_category = std::input_iterator_tag;
  using value_type = char;
  using difference_type = std::ptrdiff_t;
  using pointer = const char*;
  using reference = const char&;

  CountedCharacter(const char* at, std::int64_t* lines) : at_(at), lines_(lines) {}
  reference operator*() const { return *at_; }
  CountedCharacter& operator++() {
    if (*at_ == '\n') ++*lines_;
    ++at_;
    return *this;
  }
  CountedCharacter operator++(int) {
    CountedCharacter before = *this;
    ++*this;
    return before;
  }
  bool operator==(const CountedCharacter& other) const { return at_ == other.at_; }
  bool operator!=(const CountedCharacter& other) const { return at_ != other.at_; }

 private:
  const char* at_;
  std::int64_t* lines_;
};

// Finds the line of every name, by its dotted path. Names inside lists have no line. Reading stops
// at a repeated name outside of lists (`is_repeated`, last_name()).
struct LinesOfNames : json::json_sax_t {
  std::int64_t line = 1;
  std::map<std::string, std::int64_t> lines;
  bool is_repeated = false;

  bool null() override { return true; }
  bool boolean(bool) override { return true; }
  bool number_integer(number_integer_t) override { return true; }
  bool number_unsigned(number_unsigned_t) override { return true; }
  bool number_float(number_float_t, const string_t&) override { return true; }
  bool string(string_t&) override { return true; }
  bool binary(binary_t&) override { return true; }
  bool start_object(std::size_t) override {
    befores_.push_back(befores_.empty() ? "" : name_ + ".");
    return true;
  }
  bool end_object() override {
    befores_.pop_back();
    return true;
  }
  bool start_array(std::size_t) override {
    ++arrays_;
    return true;
  }
  bool end_array() override {
    --arrays_;
    return true;
  }
  bool key(string_t& text) override {
    if (arrays_ > 0) return true;
    name_ = befores_.back() + text;
    is_repeated = !lines.emplace(name_, line).second;
    return !is_repeated;
  }
  bool parse_error(std::size_t, const std::string&, const json::exception&) override {
    return false;
  }

  const std::string& last_name() const { return name_; }

 private:
  std::vector<std::string> befores_;
  std::string name_;
  int arrays_ = 0;
};

void add_object(const json& object, const std::string& before, const std::string& file,
                const LinesOfNames& names, Settings& to) {
  for (const auto& [key, value] : object.items()) {
    const std::string name = before + key;
    if (value.is_object()) {
      add_object(value, name + ".", file, names, to);
      continue;
    }
    const auto line = names.lines.find(name);
    to.add(name, value, line == names.lines.end() ? file : place_at(file, line->second));
  }
}

bool is_value_character(char c) {
  return c != ',' && c != '}' && c != ']' && c != '{' && c != '[' && c != '"' && c != ':' &&
         static_cast<unsigned char>(c) > ' ';
}

// Returns whether a word is the name of a value that a template leaves to its user, such as
// CONFIG_MBSIZE or Group_SIZE. True and None are words of Python, so they are no such names.
bool names_left_out_value(const std::string& word) {
  const auto is_capital = [](char c) { return std::isupper(static_cast<unsigned char>(c)) != 0; };
  return word.size() > 2 && is_capital(word[0]) &&
         (is_capital(word[1]) || word.find('_') != std::string::npos) &&
         std::ranges::all_of(word, is_shell_name_character);
}

// Returns a text of JSON in which names of left-out values have the values that `defines` gives
// them. Those without a value become variables of that name: "$ZERO_STAGE".
std::string with_variables(const std::string& text, const std::string& file,
                           const std::map<std::string, std::string>& defines, bool& has_variables) {
  std::string all;
  for (std::size_t i = 0; i < text.size();) {
    std::size_t end = i + 1;
    if (text[i] == '"') {
      while (end < text.size() && text[end] != '"') end += text[end] == '\\' ? 2 : 1;
      end = std::min(end + 1, text.size());
    } else if (text.compare(i, 2, "$(") == 0) {  // a command that a script put in place of a value
      int lines = 0;
      end = end_of_brackets(text, i + 1, lines, file);
    } else if (is_value_character(text[i])) {
      while (end < text.size() && is_value_character(text[end])) ++end;
    }
    const std::string part = text.substr(i, end - i);
    i = end;
    if (part.starts_with("$(")) {
      all += json(part).dump();
    } else if (!names_left_out_value(part)) {
      all += part;
    } else if (const auto given = defines.find(part); given != defines.end()) {
      all += json::accept(given->second) ? given->second : json(given->second).dump();
    } else {
      all += "\"$" + part + "\"";
      has_variables = true;
    }
  }
  return all;
}

}  // namespace

Settings read_json(const std::string& written, const std::string& file,
                   const std::map<std::string, std::string>& defines) {
  check_text(written, file);
  bool has_variables = false;
  const std::string text = with_variables(written, file, defines, has_variables);
  LinesOfNames names;
  const char* const end = text.data() + text.size();
  json::sax_parse(CountedCharacter(text.data(), &names.line), CountedCharacter(end, &names.line),
                  &names);
  if (names.is_repeated)
    throw InputError(place_at(file, names.line) + ": '" + names.last_name() +
                     "' is given twice; keep one");
  const json value = parse_json(text, file);
  if (!value.is_object())
    throw InputError(place_at(file, 1) + ": an object is needed ({\"name\": value, ...})");
  Settings settings("", has_variables);
  add_object(value, "", file, names, settings);
  return settings;
}

}  // namespace meshwright::interop
