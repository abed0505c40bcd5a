#include "hwprofiles/measured_rates.h"

#include <algorithm>
#include <cmath>
#include <limits>
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

// Computes the seconds in which the left operand, m x k, of a matmul is quantized before the
// matmul.
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

// Reads a grid of rates. Layers that quantize their input were measured as a whole, so the time of
// that kernel is subtracted.
MeasuredProducts read_products(Fields fields) {
  MeasuredProducts products;
  products.m = fields.required<std::vector<std::int64_t>>("m");
  products.n = fields.required<std::vector<std::int64_t>>("n");
  products.k = fields.required<std::vector<std::int64_t>>("k");
  const auto all =
      rates(fields, "tflop_per_s", products.m.size() * products.n.size() * products.k.size());
  Quantization quantization;
  if (fields.has("quantization")) quantization = read_quantization(fields.object("quantization"));
  fields.done();
  auto rate = all.begin();
  for (const std::int64_t rows : products.m)
    for (const std::int64_t columns : products.n)
      for (const std::int64_t depth : products.k) {
        const double measured = *rate++ * tera;
        products.places.push_back(measured > 0 ? static_cast<int>(products.measured.size()) : -1);
        if (measured <= 0) continue;
        const double flops = 2.0 * static_cast<double>(rows * columns) * static_cast<double>(depth);
        const double alone_s = flops / measured - quantization.of(rows, depth);
        if (alone_s <= 0) fields.fail("quantization", "takes longer than a whole layer");
        products.measured.push_back({rows, columns, depth, flops / alone_s});
      }
  if (products.measured.empty()) fields.fail("tflop_per_s", "holds no rate above 0");
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

// Limits each rate to the peak. A rate in 8 bits comes from the measured time of a layer minus the
// fitted time of its quantization. If a small layer takes little longer than its quantization, the
// rate may come out too high.
void limit_rates(MeasuredProducts& products, double peak) {
  for (MeasuredProduct& each : products.measured) each.flop_per_s = std::min(each.flop_per_s, peak);
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

std::vector<double> distances(std::int64_t wanted, const std::vector<std::int64_t>& sizes) {
  std::vector<double> of_each;
  of_each.reserve(sizes.size());
  for (const std::int64_t size : sizes)
    of_each.push_back(apart(static_cast<double>(wanted), static_cast<double>(size)));
  return of_each;
}

std::size_t least(const std::vector<double>& values) {
  return static_cast<std::size_t>(std::ranges::min_element(values) - values.begin());
}

}  // namespace

// A search calls this for every matmul of every candidate, so it is fast for a measured cell: the
// sum is least where each of its terms is least. All cells are compared only if that cell was not
// measured.
const MeasuredProduct& nearest_product(const MeasuredProducts& products, std::int64_t m,
                                       std::int64_t n, std::int64_t k) {
  const std::vector<double> by_m = distances(m, products.m), by_n = distances(n, products.n),
                            by_k = distances(k, products.k);
  const auto place = [&](std::size_t i, std::size_t j, std::size_t l) {
    return products.places[(i * by_n.size() + j) * by_k.size() + l];
  };
  if (const int found = place(least(by_m), least(by_n), least(by_k)); found >= 0)
    return products.measured[static_cast<std::size_t>(found)];
  int nearest = -1;
  double least_sum = std::numeric_limits<double>::infinity();
  for (std::size_t i = 0; i < by_m.size(); ++i)
    for (std::size_t j = 0; j < by_n.size(); ++j)
      for (std::size_t l = 0; l < by_k.size(); ++l) {
        const double sum = by_m[i] + by_n[j] + by_k[l];
        if (place(i, j, l) < 0 || sum >= least_sum) continue;
        nearest = place(i, j, l);
        least_sum = sum;
      }
  return products.measured[static_cast<std::size_t>(nearest)];
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
