// Computes $(( )) of shell scripts.
#include <cctype>

#include "tools/interop/formats/shell_words.h"

namespace meshwright::interop {

namespace {

class Arithmetic {
 public:
  explicit Arithmetic(const std::string& text) : text_(text) {}
  std::optional<std::int64_t> value() {
    const std::int64_t result = sum();
    skip();
    if (!good_ || at_ != text_.size()) return std::nullopt;
    return result;
  }

 private:
  static constexpr std::int64_t most = std::int64_t{1} << 52;
  void skip() {
    while (at_ < text_.size() && text_[at_] == ' ') ++at_;
  }
  bool take(char c) {
    skip();
    if (at_ >= text_.size() || text_[at_] != c) return false;
    ++at_;
    return true;
  }
  std::int64_t bounded(long double value) {
    if (value > most || value < -most) good_ = false;
    return good_ ? static_cast<std::int64_t>(value) : 0;
  }
  std::int64_t sum() {
    std::int64_t left = product();
    while (good_) {
      if (take('+'))
        left = bounded(static_cast<long double>(left) + static_cast<long double>(product()));
      else if (take('-'))
        left = bounded(static_cast<long double>(left) - static_cast<long double>(product()));
      else
        break;
    }
    return left;
  }
  std::int64_t product() {
    std::int64_t left = factor();
    while (good_) {
      const char sign = take('*') ? '*' : take('/') ? '/' : take('%') ? '%' : ' ';
      if (sign == ' ') break;
      const std::int64_t right = factor();
      if (sign != '*' && right == 0) good_ = false;
      if (!good_) break;
      left = sign == '*' ? bounded(static_cast<long double>(left) * static_cast<long double>(right))
             : sign == '/' ? left / right
                           : left % right;
    }
    return left;
  }
  std::int64_t factor() {
    if (++depth_ > 64) good_ = false;
    if (!good_) return 0;
    std::int64_t value = 0;
    if (take('(')) {
      value = sum();
      good_ = good_ && take(')');
    } else if (take('-')) {
      value = -factor();
    } else {
      skip();
      const std::size_t begin = at_;
      while (at_ < text_.size() && std::isdigit(static_cast<unsigned char>(text_[at_])) != 0 &&
             at_ - begin < 15)
        value = 10 * value + (text_[at_++] - '0');
      good_ = good_ && at_ > begin;
    }
    --depth_;
    return value;
  }
  const std::string& text_;
  std::size_t at_ = 0;
  int depth_ = 0;
  bool good_ = true;
};

}  // namespace

std::optional<std::int64_t> shell_arithmetic(const std::string& text) {
  return Arithmetic(text).value();
}

}  // namespace meshwright::interop
