#include "hwprofiles/measured_rates.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <mutex>

#include "hwprofiles/load.h"
#include "models/core/error.h"
#include "models/core/fields.h"

namespace meshwright::hwprofiles {

namespace {

constexpr double tera = 1e12;

double share(Fields& fields, std::string_view key) {
  const auto value = fields.required<double>(key);
  if (!(value > 0 && value <= 1)) fields.fail(key, "is a share; use more than 0 and at most 1");
  return value;
}

std::vector<double> rates(Fields& fields, std::string_view key, std::size_t count) {
  auto values = fields.required<std::vector<double>>(key);
  if (values.size() != count)
    fields.fail(key, "expected " + std::to_string(count) + " rates, one for each shape, found " +
                         std::to_string(values.size()));
  return values;
}

// Seconds in which the left operand of a product is quantized, before the product itself.
struct Quantization {
  double latency_s = 0, s_per_element = 0;

  double of(std::int64_t m, std::int64_t k) const {
    return latency_s + s_per_element * static_cast<double>(m) * static_cast<double>(k);
  }
};

Quantization read_quantization(Fields fields) {
  const Quantization read{fields.required<double>("latency_s"),
                          fields.required<double>("s_per_element")};
  fields.done();
  return read;
}

// Layers that quantize were measured as a whole, so their rates are without that kernel's time.
std::vector<MeasuredProduct> read_products(Fields fields) {
  const auto m = fields.required<std::vector<std::int64_t>>("m");
  const auto n = fields.required<std::vector<std::int64_t>>("n");
  const auto k = fields.required<std::vector<std::int64_t>>("k");
  const auto all = rates(fields, "tflop_per_s", m.size() * n.size() * k.size());
  Quantization quantization;
  if (fields.has("quantization")) quantization = read_quantization(fields.object("quantization"));
  fields.done();
  std::vector<MeasuredProduct> products;
  auto rate = all.begin();
  for (const std::int64_t rows : m)
    for (const std::int64_t columns : n)
      for (const std::int64_t depth : k) {
        const double measured = *rate++ * tera;
        if (measured <= 0) continue;
        const double flops = 2.0 * static_cast<double>(rows * columns) * static_cast<double>(depth);
        const double alone_s = flops / measured - quantization.of(rows, depth);
        if (alone_s <= 0) fields.fail("quantization", "takes longer than a whole layer");
        products.push_back({rows, columns, depth, flops / alone_s});
      }
  if (products.empty()) fields.fail("tflop_per_s", "holds no rate above 0");
  return products;
}

void read_attention(Fields fields, MeasuredRates& to) {
  const auto keys = fields.required<std::vector<double>>("keys");
  const auto all = rates(fields, "forward_tflop_per_s", keys.size());
  for (std::size_t i = 0; i < keys.size(); ++i) to.attention.push_back({keys[i], all[i] * tera});
  to.narrow_share = share(fields, "narrow_share");
  to.backward_share = share(fields, "backward_share");
  if (fields.has("flash2")) {
    Fields flash2 = fields.object("flash2");
    to.flash2 = {share(flash2, "forward"), share(flash2, "backward"),
                 flash2.required<double>("ramp")};
    flash2.done();
  }
  fields.done();
}

// Small layers take little longer than the mean time of quantization, so that what is left of a
// measured time may be too short: no rate is above the peak.
void limit_rates(std::vector<MeasuredProduct>& products, double peak) {
  for (MeasuredProduct& each : products) each.flop_per_s = std::min(each.flop_per_s, peak);
}

MeasuredRates read_rates(Fields file, const Gpu& gpu) {
  MeasuredRates read;
  file.required<std::string>("source");
  read.products = read_products(file.object("products"));
  if (file.has("products_in_8_bits"))
    read.products_in_8_bits = read_products(file.object("products_in_8_bits"));
  limit_rates(read.products_in_8_bits, gpu.peak(Precision::fp8).value);
  if (file.has("attention")) read_attention(file.object("attention"), read);
  file.done();
  return read;
}

// Returns how far apart two sizes are, as the square of the logarithm of their ratio.
double apart(double one, double other) {
  const double ratio = std::log(one / other);
  return ratio * ratio;
}

}  // namespace

// Few sizes are measured along each dimension, so the logarithms of a size are taken once for all
// products that share it.
const MeasuredProduct& nearest_product(const std::vector<MeasuredProduct>& products, std::int64_t m,
                                       std::int64_t n, std::int64_t k) {
  const std::int64_t wanted[] = {m, n, k};
  std::int64_t seen[3] = {};
  double distance[3] = {};
  const MeasuredProduct* nearest = nullptr;
  double least = 0;
  for (const MeasuredProduct& each : products) {
    const std::int64_t sizes[] = {each.m, each.n, each.k};
    for (int i = 0; i < 3; ++i)
      if (sizes[i] != seen[i]) {
        seen[i] = sizes[i];
        distance[i] = apart(static_cast<double>(wanted[i]), static_cast<double>(sizes[i]));
      }
    const double sum = distance[0] + distance[1] + distance[2];
    if (nearest == nullptr || sum < least) {
      nearest = &each;
      least = sum;
    }
  }
  return *nearest;
}

const MeasuredAttention& nearest_attention(const MeasuredRates& rates, std::int64_t keys) {
  return *std::ranges::min_element(rates.attention, {}, [&](const MeasuredAttention& each) {
    return apart(each.keys, static_cast<double>(keys));
  });
}

const MeasuredRates* measured_rates(const Gpu& gpu) {
  if (gpu.measured.empty()) return nullptr;
  static std::mutex reading;
  static std::map<std::string, MeasuredRates> known;
  const std::string path = parts_folder() + "/measured/" + gpu.measured + ".json";
  const std::lock_guard lock(reading);
  auto found = known.find(path);
  if (found == known.end())
    found = known.emplace(path, read_rates(read_json_file(path), gpu)).first;
  return &found->second;
}

}  // namespace meshwright::hwprofiles
