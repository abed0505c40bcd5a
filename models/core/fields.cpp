#include "models/core/fields.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <cstring>
#include <limits>
#include <map>
#include <mutex>

#include "models/core/data_files.h"
#include "models/core/error.h"
#include "models/core/json.h"
#include "models/core/open_file.h"
#include "models/core/other_words.h"

namespace meshwright::core {

namespace {

constexpr int max_depth = 64;
constexpr std::size_t max_file_bytes = std::size_t{256} << 20;

std::string shown(const json& value) {
  std::string text = value.dump(-1, ' ', true, json::error_handler_t::replace);
  if (text.size() > 60) text = text.substr(0, 57) + "...";
  return text;
}

// Builds the value from the events of nlohmann's parser. Throws InputError for repeated keys and
// deep nesting, which the library itself accepts.
class StrictSax : public nlohmann::detail::json_sax_dom_parser<json> {
 public:
  using Base = nlohmann::detail::json_sax_dom_parser<json>;
  StrictSax(json& result, std::string where) : Base(result, false), where_(std::move(where)) {}

  bool start_object(std::size_t size) {
    enter();
    keys_.emplace_back();
    return Base::start_object(size);
  }
  bool end_object() {
    --depth_;
    keys_.pop_back();
    return Base::end_object();
  }
  bool start_array(std::size_t size) {
    enter();
    return Base::start_array(size);
  }
  bool end_array() {
    --depth_;
    return Base::end_array();
  }
  bool key(std::string& name) {
    if (!keys_.back().insert(name).second)
      throw InputError(where_ + ": key '" + name +
                       "' is given twice in one object; keep one of them");
    return Base::key(name);
  }
  bool parse_error(std::size_t position, const std::string& token,
                   const nlohmann::detail::exception& error) {
    error_position_ = position;
    error_token_ = token;
    error_text_ = error.what();
    return Base::parse_error(position, token, error);
  }
  std::size_t error_position() const { return error_position_; }
  const std::string& error_text() const { return error_text_; }

 private:
  void enter() {
    if (++depth_ > max_depth)
      throw InputError(where_ + ": nested deeper than " + std::to_string(max_depth) + " levels");
  }
  std::string where_;
  int depth_ = 0;
  std::vector<std::set<std::string>> keys_;
  std::size_t error_position_ = 0;
  std::string error_token_;
  std::string error_text_;
};

// Returns a text like "line 3, column 7" for the byte number `position`, counted from 1. Columns
// are counted in bytes.
std::string line_and_column(const std::string& text, std::size_t position) {
  const std::size_t end = std::min(position == 0 ? 0 : position - 1, text.size());
  const auto begin = text.begin();
  const auto line = 1 + std::count(begin, begin + static_cast<std::ptrdiff_t>(end), '\n');
  const std::size_t start = end == 0 ? std::string::npos : text.rfind('\n', end - 1);
  const std::size_t column = start == std::string::npos ? end + 1 : end - start;
  return "line " + std::to_string(line) + ", column " + std::to_string(column);
}

// Returns what is wrong in a file, in words, taken from the message of nlohmann's parser.
std::string syntax_problem(const std::string& text) {
  const std::size_t at = text.find("syntax error");
  if (at != std::string::npos) {
    std::string problem = text.substr(at);
    const std::size_t read = problem.find("; last read");
    if (read != std::string::npos) problem = problem.substr(0, read);
    return problem;
  }
  if (text.find("out of range") != std::string::npos ||
      text.find("out_of_range") != std::string::npos)
    return "a number is too large for a 64-bit float";
  return text;
}

[[noreturn]] void wrong_type(const Fields& fields, std::string_view key, const json& value,
                             const char* expected) {
  const bool is_quoted_number = value.is_string() && std::string_view(expected) != "a string" &&
                                json::accept(value.get_ref<const std::string&>()) &&
                                json::parse(value.get_ref<const std::string&>()).is_number();
  fields.fail(key, "expected " + std::string(expected) + ", found " + shown(value) +
                       (is_quoted_number ? "; write it without quotes" : ""));
}

bool read(const Fields& fields, std::string_view key, const json& value, bool*) {
  if (!value.is_boolean()) wrong_type(fields, key, value, "true or false");
  return value.get<bool>();
}

std::int64_t read(const Fields& fields, std::string_view key, const json& value, std::int64_t*) {
  if (value.is_number_unsigned() &&
      value.get<std::uint64_t>() >
          static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max()))
    wrong_type(fields, key, value, "an integer below 2^63");
  if (value.is_number_integer()) return value.get<std::int64_t>();
  if (value.is_number_float()) {
    const double number = value.get<double>();
    if (std::nearbyint(number) == number && std::abs(number) < 9e15)
      return static_cast<std::int64_t>(number);
  }
  wrong_type(fields, key, value, "an integer");
}

std::uint64_t read(const Fields& fields, std::string_view key, const json& value, std::uint64_t*) {
  if (!value.is_number_unsigned()) wrong_type(fields, key, value, "an integer from 0 to 2^64 - 1");
  return value.get<std::uint64_t>();
}

std::uint32_t read(const Fields& fields, std::string_view key, const json& value, std::uint32_t*) {
  const std::int64_t wide = read(fields, key, value, static_cast<std::int64_t*>(nullptr));
  if (wide < 0 || wide > std::numeric_limits<std::uint32_t>::max())
    wrong_type(fields, key, value, "an integer from 0 to 2^32 - 1");
  return static_cast<std::uint32_t>(wide);
}

int read(const Fields& fields, std::string_view key, const json& value, int*) {
  const std::int64_t wide = read(fields, key, value, static_cast<std::int64_t*>(nullptr));
  if (wide > std::numeric_limits<int>::max() || wide < std::numeric_limits<int>::min())
    wrong_type(fields, key, value, "an integer below 2^31");
  return static_cast<int>(wide);
}

double read(const Fields& fields, std::string_view key, const json& value, double*) {
  if (!value.is_number()) wrong_type(fields, key, value, "a number");
  return value.get<double>();
}

std::string read(const Fields& fields, std::string_view key, const json& value, std::string*) {
  if (!value.is_string()) wrong_type(fields, key, value, "a string");
  return value.get<std::string>();
}

template <class T>
std::vector<T> read(const Fields& fields, std::string_view key, const json& value,
                    std::vector<T>*) {
  if (!value.is_array()) wrong_type(fields, key, value, "a list");
  std::vector<T> items;
  for (std::size_t i = 0; i < value.size(); ++i)
    items.push_back(read(fields, std::string(key) + "/" + std::to_string(i), value[i],
                         static_cast<T*>(nullptr)));
  return items;
}

template <class T>
constexpr const char* wanted = "an integer";
template <>
constexpr const char* wanted<bool> = "true or false";
template <>
constexpr const char* wanted<double> = "a number";
template <>
constexpr const char* wanted<std::string> = "a string";
template <class T>
constexpr const char* wanted<std::vector<T>> = "a list";

struct Closing {
  int descriptor;
  ~Closing() { close(descriptor); }
};

// Reads a file until its end instead of asking for its size, because pipes and devices report no
// size. Throws InputError if reading fails or the file has more than max_file_bytes.
std::string read_to_end(int descriptor, const std::string& path) {
  std::string content;
  std::vector<char> block(std::size_t{1} << 16);
  for (;;) {
    const ssize_t count = ::read(descriptor, block.data(), block.size());
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) throw InputError(path + ": cannot be read: " + std::strerror(errno));
    if (count == 0) return content;
    content.append(block.data(), count);
    if (content.size() > max_file_bytes)
      throw InputError(path + ": more than " + std::to_string(max_file_bytes >> 20) +
                       " MiB are too many for a text file");
  }
}

// Returns a pipe's text, also if it was read before. A pipe gives its text once, but some commands
// read a job more than once. So the text is kept, under the pipe's device and inode numbers.
std::string read_pipe_once(int descriptor, const std::string& path, const struct stat& status) {
  static std::mutex mutex;
  static std::map<std::pair<dev_t, ino_t>, std::string> texts;
  const std::lock_guard lock(mutex);
  const std::pair key{status.st_dev, status.st_ino};
  if (const auto found = texts.find(key); found != texts.end()) return found->second;
  return texts[key] = read_to_end(descriptor, path);
}

}  // namespace

Fields::Fields(json value, std::string where, std::string pointer)
    : value_(std::make_shared<const json>(std::move(value))),
      where_(std::move(where)),
      pointer_(std::move(pointer)) {
  if (!value_->is_object()) fail("", "expected an object, found " + shown(*value_));
}

bool Fields::is_null() const { return value_->is_null(); }

bool Fields::has(std::string_view key) {
  known_.emplace(key);
  return value_->contains(key);
}

bool Fields::is_string(std::string_view key) {
  return has(key) && value_->at(std::string(key)).is_string();
}
bool Fields::is_object(std::string_view key) {
  return has(key) && value_->at(std::string(key)).is_object();
}
bool Fields::is_array(std::string_view key) {
  return has(key) && value_->at(std::string(key)).is_array();
}

namespace {

// Returns whether job_keys_for() knows `word` as another tool's word for a key called `name` in
// some section of a job.
bool stands_for(const std::string& word, const std::string& name) {
  const std::vector<std::string> keys = job_keys_for(word);
  return std::ranges::any_of(keys,
                             [&](const std::string& key) { return key.ends_with("." + name); });
}

}  // namespace

const json& Fields::find(std::string_view key, const char* expected) {
  if (!has(key)) {
    std::string problem = "missing; it is required (" + std::string(expected) + ")";
    for (const auto& [found, value] : value_->items())
      if (!known_.contains(found) &&
          (!nearest(found, {std::string(key)}).empty() || stands_for(found, std::string(key))))
        problem += "; is '" + found + "' meant for it?";
    fail(key, problem);
  }
  return value_->at(std::string(key));
}

template <class T>
T Fields::required(std::string_view key) {
  return read(*this, key, find(key, wanted<T>), static_cast<T*>(nullptr));
}

template <class T>
T Fields::optional(std::string_view key, T fallback) {
  return has(key) ? required<T>(key) : fallback;
}

#define MESHWRIGHT_FIELD(T)                         \
  template T Fields::required<T>(std::string_view); \
  template T Fields::optional<T>(std::string_view, T);
MESHWRIGHT_FIELD(bool)
MESHWRIGHT_FIELD(int)
MESHWRIGHT_FIELD(std::int64_t)
MESHWRIGHT_FIELD(std::uint32_t)
MESHWRIGHT_FIELD(std::uint64_t)
MESHWRIGHT_FIELD(double)
MESHWRIGHT_FIELD(std::string)
MESHWRIGHT_FIELD(std::vector<int>)
MESHWRIGHT_FIELD(std::vector<std::int64_t>)
MESHWRIGHT_FIELD(std::vector<double>)
MESHWRIGHT_FIELD(std::vector<std::string>)
#undef MESHWRIGHT_FIELD

Fields Fields::object(std::string_view key) {
  return {find(key, "an object"), where_, pointer_ + "/" + std::string(key)};
}

std::vector<Fields> Fields::objects(std::string_view key) {
  const json& list = find(key, "a list of objects");
  if (!list.is_array()) wrong_type(*this, key, list, "a list of objects");
  std::vector<Fields> items;
  for (std::size_t i = 0; i < list.size(); ++i)
    items.emplace_back(list[i], where_,
                       pointer_ + "/" + std::string(key) + "/" + std::to_string(i));
  return items;
}

std::vector<std::string> Fields::keys() const {
  std::vector<std::string> names;
  for (const auto& [key, value] : value_->items()) names.push_back(key);
  return names;
}

const json& Fields::raw(std::string_view key) { return find(key, "a value"); }

namespace {

// Returns what an unknown key is probably meant to be, as messages write it: "'tensor'",
// "'global_batch' or 'micro_batch'", "/parallelism/tensor". Returns "" if nothing is found.
std::string meant_by(const std::string& key, const std::string& pointer,
                     const std::vector<std::string>& known) {
  if (const std::string same = same_as(key, known); !same.empty()) return "'" + same + "'";
  const bool is_job = std::ranges::find(known, "parallelism") != known.end();
  std::vector<std::string> here, elsewhere;
  for (const std::string& path : job_keys_for(key)) {
    const std::size_t dot = path.find('.');
    const std::string section = "/" + path.substr(0, dot), name = path.substr(dot + 1);
    if (section == pointer && std::ranges::find(known, name) != known.end())
      here.push_back("'" + name + "'");
    else
      elsewhere.push_back(section + "/" + name);
  }
  if (!here.empty()) return list_of(here, "or");
  constexpr std::string_view sections[] = {"/training", "/parallelism", "/cluster", "/objective"};
  const bool is_section = std::ranges::find(sections, pointer) != std::end(sections);
  if (!elsewhere.empty() && (is_job || is_section)) return list_of(elsewhere, "or");
  const std::string near = nearest(key, known);
  return near.empty() ? "" : "'" + near + "'";
}

}  // namespace

void Fields::done() const {
  for (const auto& [key, value] : value_->items()) {
    if (known_.contains(key)) continue;
    const std::vector<std::string> known(known_.begin(), known_.end());
    const std::string meant = meant_by(key, pointer_, known);
    fail(key, meant.empty() ? "unknown key; known: " + list_of(known, "and")
                            : "unknown key; did you mean " + meant + "?");
  }
}

void Fields::fail(std::string_view key, Violation violation) const {
  violation.file = where_;
  violation.key = pointer_;
  if (!key.empty() || pointer_.empty()) violation.key += "/" + std::string(key);
  throw InputError(std::move(violation));
}

json parse_json(const std::string& text, const std::string& where) {
  json result;
  StrictSax sax(result, where);
  if (!json::sax_parse(text, &sax))
    throw InputError(where + ": " + line_and_column(text, sax.error_position()) + ": " +
                     syntax_problem(sax.error_text()));
  return result;
}

std::string without_infinities(std::string text) {
  bool is_quoted = false;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '"') is_quoted = !is_quoted;
    if (text[i] == '\\' && is_quoted) ++i;
    if (is_quoted) continue;
    for (const std::string_view word : {"-Infinity", "Infinity", "NaN"}) {
      if (text.compare(i, word.size(), word) != 0) continue;
      std::string by = "null";
      by.resize(std::max(by.size(), word.size()), ' ');
      text.replace(i, word.size(), by);
      break;
    }
  }
  return text;
}

std::string read_file(const std::string& path) {
  if (const auto text = built_in_file(path)) return std::string(*text);
  check_readable(path);
  const int descriptor = open_to_read(path);
  if (descriptor < 0)
    throw InputError(path + ": cannot be opened for reading: " + std::strerror(errno));
  const Closing closing{descriptor};
  struct stat status {};
  fstat(descriptor, &status);
  // Clears O_NONBLOCK, with which the file was opened. Reading a pipe then waits for its writer,
  // which may take a while.
  if (!S_ISREG(status.st_mode)) fcntl(descriptor, F_SETFL, O_RDONLY);
  return S_ISFIFO(status.st_mode) ? read_pipe_once(descriptor, path, status)
                                  : read_to_end(descriptor, path);
}

Fields read_json_file(const std::string& path) { return {parse_json(read_file(path), path), path}; }

int choose(const Fields& fields, std::string_view key, std::string_view what,
           const std::string& value, const std::vector<std::string>& known) {
  const auto found = std::ranges::find(known, value);
  if (found != known.end()) return static_cast<int>(found - known.begin());
  const std::string same = same_as(value, known);
  fields.fail(key, "unknown " + std::string(what) + " '" + value + "'; " +
                       (same.empty() ? "" : "did you mean '" + same + "'? ") +
                       "known: " + list_of(known, "and"));
}

}  // namespace meshwright::core
