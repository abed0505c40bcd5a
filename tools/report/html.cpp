#include "tools/report/html.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <iterator>
#include <numeric>

#include "models/core/quote.h"
#include "tools/report/assets.h"
#include "tools/report/prediction.h"

namespace meshwright::tools {

namespace {

constexpr std::array text_columns = {"plan", "cluster", "rejected because"};

// Explains a term that labels numbers on a page.
struct Meaning {
  const char* word;
  const char* meaning;
};
constexpr Meaning meanings[] = {
    {"step", "time of one optimizer step, from its first kernel to its last"},
    {"tokens/s", "of the whole cluster; of a model of images, patches"},
    {"MFU",
     "model FLOP/s utilisation: operations that the model needs, by those that all GPUs could do"},
    {"memory", "the highest of any GPU, all it holds counted; 1 GiB is 2^30 bytes"},
    {"bubble", "share of the step in which a stage waits for others"},
    {"exposed communication", "time in which a GPU does nothing but communicate"},
    {"goodput", "share of the time that goes into steps that count, where hosts fail"},
    {"$/h, $/M tokens", "US dollars: of all hosts for an hour; for a million tokens"},
    {"pareto", "no other plan is both faster and cheaper"}};

// Maps values to the pixels of a picture. The frame leaves room for numbers on the left and below,
// and for the names of the axes above and below. `lowest` and `highest` are the values at its
// bottom and top, `first` and `last` those at its left and right.
struct Frame {
  static constexpr double width = 800, height = 310, left = 70, right = 790, top = 26, bottom = 270;
  double lowest = 0, highest = 1, first = 0, last = 1;
  bool over_steps = false;  // x counts steps, so only whole numbers get marks

  double x(double value) const { return left + (right - left) * (value - first) / (last - first); }
  double y(double value) const {
    return bottom - (bottom - top) * (value - lowest) / (highest - lowest);
  }
};

constexpr int most_marks = 6;

double distance_of_marks(double lowest, double highest, int most) {
  const double least = (highest - lowest) / most;
  const double power = std::pow(10, std::floor(std::log10(least)));
  for (const double factor : {1.0, 2.0, 5.0})
    if (factor * power >= least) return factor * power;
  return 10 * power;
}

// Sets the values at the bottom and top of the frame to the marks around `lowest` and `highest`, so
// that the axis begins and ends with a round number. If all values are equal, they lie near the
// middle.
void set_ends(Frame& frame, double lowest, double highest) {
  if (!(highest > lowest)) {
    const double around = lowest == 0 ? 1 : std::abs(lowest) / 10;
    lowest -= around;
    highest += around;
  }
  const double distance = distance_of_marks(lowest, highest, most_marks);
  frame.lowest = std::floor(lowest / distance + 1e-9) * distance;
  frame.highest = std::ceil(highest / distance - 1e-9) * distance;
}

Frame frame_of(const StepValues& of_steps) {
  double lowest = 0, highest = 0;
  bool first = true;
  for (const double value : of_steps.values()) {
    if (!std::isfinite(value)) continue;
    lowest = first ? value : std::min(lowest, value);
    highest = first ? value : std::max(highest, value);
    first = false;
  }
  Frame frame;
  frame.over_steps = true;
  set_ends(frame, lowest, highest);
  frame.first = static_cast<double>(of_steps.first());
  frame.last = static_cast<double>(std::max(of_steps.last(), of_steps.first() + 1));
  return frame;
}

std::string colour_of(std::size_t part) {
  constexpr std::array colours = {"#4c78a8", "#f58518", "#54a24b", "#e45756", "#eeca3b", "#72b7b2",
                                  "#b279a2", "#9d755d", "#bab0ac", "#1f6feb", "#ff9da6", "#59a14f"};
  return colours[part % colours.size()];
}

// Returns the axes of a frame as SVG: lines at round values with their numbers, numbers below, and
// names.
std::string axes_of(const Frame& frame, const HtmlPage::AxisNames& names) {
  std::string text;
  for (const double value : axis_marks(frame.lowest, frame.highest, most_marks))
    text += fmt::format(
        "<path class=\"grid\" d=\"M{} {:.1f}H{}\"/><text x=\"{}\" y=\"{:.1f}\" font-size=\"12\" "
        "text-anchor=\"end\">{:.6g}</text>\n",
        Frame::left, frame.y(value), Frame::right, Frame::left - 6, frame.y(value) + 4, value);
  for (const double value : axis_marks(frame.first, frame.last, most_marks)) {
    if (frame.over_steps && value != std::floor(value)) continue;
    text += fmt::format(
        "<path class=\"grid\" d=\"M{:.1f} {}v5\"/><text x=\"{:.1f}\" y=\"{}\" font-size=\"12\" "
        "text-anchor=\"middle\">{:.10g}</text>\n",
        frame.x(value), Frame::bottom, frame.x(value), Frame::bottom + 18, value);
  }
  return text + fmt::format(
                    "<text x=\"{}\" y=\"12\" font-size=\"12\">{}</text><text x=\"{}\" y=\"{}\" "
                    "font-size=\"12\" text-anchor=\"middle\">{}</text>\n",
                    Frame::left, html_text(names.y), (Frame::left + Frame::right) / 2,
                    Frame::bottom + 35, html_text(names.x));
}

}  // namespace

std::vector<double> axis_marks(double lowest, double highest, int most) {
  std::vector<double> marks;
  if (!(highest > lowest)) return {lowest};
  const double distance = distance_of_marks(lowest, highest, most);
  // A mark at an end counts, although rounding may put it a little beyond.
  const double slack = distance * 1e-6;
  for (double mark = std::ceil((lowest - slack) / distance); mark * distance <= highest + slack;
       ++mark)
    marks.push_back(mark == 0 ? 0 : mark * distance);
  return marks;
}

HtmlPage::HtmlPage(const std::string& title)
    : body_(fmt::format(
          "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n"
          "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n"
          "<title>{0}</title>\n<style>\n{1}</style>\n</head>\n<body>\n<main>\n<h1>{0}</h1>\n"
          "<section class=\"card\">\n",
          html_text(title), *asset("style.css"))) {}

void HtmlPage::heading(const std::string& text) {
  if (!body_.ends_with("<section class=\"card\">\n"))
    body_ += "</section>\n<section class=\"card\">\n";
  body_ += "<h2>" + html_text(text) + "</h2>\n";
}

void HtmlPage::facts(const std::vector<Fact>& facts) {
  body_ += "<dl class=\"facts\">\n";
  for (const Fact& fact : facts)
    body_ += "<dt>" + html_text(fact.name) + "</dt><dd>" + html_text(fact.value) + "</dd>\n";
  body_ += "</dl>\n";
}

void HtmlPage::paragraph(const std::string& text) { body_ += "<p>" + html_text(text) + "</p>\n"; }

void HtmlPage::table(const Table& table) {
  const std::vector<std::string>& head = table.rows().front();
  std::vector<const char*> classes;
  for (const std::string& name : head)
    classes.push_back(
        std::ranges::find(text_columns, name) != text_columns.end() ? " class=\"text\"" : "");
  body_ += "<div class=\"wide\"><table>\n";
  for (const auto& row : table.rows()) {
    const bool is_head = &row == &head;
    const char* cell = is_head ? "th" : "td";
    body_ += is_head ? "<thead><tr>" : "<tr>";
    for (std::size_t i = 0; i < row.size(); ++i)
      body_ += fmt::format("<{0}{1}>{2}</{0}>", cell, classes[i], html_text(row[i]));
    body_ += is_head ? "</tr></thead>\n<tbody>\n" : "</tr>\n";
  }
  body_ += "</tbody></table></div>\n";
}

void HtmlPage::curve(const std::string& caption, const std::string& axis,
                     const StepValues& of_steps) {
  if (of_steps.empty()) return;
  const std::vector<double>& values = of_steps.values();
  const Frame frame = frame_of(of_steps);
  // Draws fewer than 4000 points, because the picture has fewer columns of pixels.
  const std::size_t stride = std::max<std::size_t>(1, values.size() / 2000);
  const double each =
      (frame.last - frame.first) / static_cast<double>(std::max<std::size_t>(values.size(), 2) - 1);
  std::string points;
  for (std::size_t i = 0; i < values.size(); i += stride)
    if (std::isfinite(values[i]))
      points += fmt::format("{:.1f},{:.1f} ", frame.x(frame.first + each * static_cast<double>(i)),
                            frame.y(values[i]));
  body_ += fmt::format(
      "<figure><svg viewBox=\"0 0 {} {}\" role=\"img\" aria-label=\"{}\">\n{}<polyline "
      "fill=\"none\" stroke=\"#1f6feb\" stroke-width=\"2\" points=\"{}\"/></svg>\n"
      "<figcaption>{}</figcaption></figure>\n",
      Frame::width, Frame::height, html_text(caption), axes_of(frame, {"step", axis}), points,
      html_text(caption));
}

void HtmlPage::bars(const std::string& caption, const std::vector<std::string>& parts,
                    const std::vector<Bar>& bars) {
  double longest = 0;
  for (const Bar& bar : bars)
    longest = std::max(longest, std::accumulate(bar.parts.begin(), bar.parts.end(), 0.0));
  if (!(longest > 0)) return;
  constexpr double height = 24, character = 7;
  double left = Frame::left;
  for (const Bar& bar : bars)
    left = std::max(left, character * static_cast<double>(bar.label.size()));
  std::string text;
  for (std::size_t row = 0; row < bars.size(); ++row) {
    const double y = height * static_cast<double>(row);
    text += fmt::format("<text x=\"0\" y=\"{}\" font-size=\"12\">{}</text>\n", y + 16,
                        html_text(bars[row].label));
    double x = left;
    for (std::size_t part = 0; part < parts.size(); ++part) {
      const double width = (Frame::right - left) * bars[row].parts[part] / longest;
      text += fmt::format(
          "<rect x=\"{:.2f}\" y=\"{}\" width=\"{:.2f}\" height=\"{}\" "
          "fill=\"{}\"><title>{}</title></rect>\n",
          x, y + 2, width, height - 4, colour_of(part), html_text(parts[part]));
      x += width;
    }
  }
  figure(caption, parts, height * static_cast<double>(bars.size()), text);
}

void HtmlPage::areas(const std::string& caption, const AxisNames& axes,
                     const std::vector<std::string>& parts, const std::vector<AreaPoint>& points,
                     double end) {
  if (points.empty() || !(end > 0)) return;
  // Each column of one pixel shows the highest of its points, or, if it has none, the last point
  // before it.
  constexpr std::size_t columns = static_cast<std::size_t>(Frame::right - Frame::left);
  std::vector<const AreaPoint*> highest(columns, nullptr), latest(columns, nullptr);
  const auto total = [](const AreaPoint& point) {
    return std::accumulate(point.parts.begin(), point.parts.end(), 0.0);
  };
  for (const AreaPoint& point : points) {
    const double place = std::clamp(point.x / end, 0.0, 1.0) * static_cast<double>(columns - 1);
    const AreaPoint*& column = highest[static_cast<std::size_t>(place)];
    if (column == nullptr || total(point) > total(*column)) column = &point;
    latest[static_cast<std::size_t>(place)] = &point;
  }
  const AreaPoint* last = &points.front();
  for (std::size_t i = 0; i < columns; ++i) {
    if (highest[i] == nullptr) highest[i] = last;
    if (latest[i] != nullptr) last = latest[i];
  }
  double most = 0;
  for (const AreaPoint& point : points) most = std::max(most, total(point));
  if (!(most > 0)) return;
  Frame frame;
  set_ends(frame, 0, most);
  frame.last = end;
  std::string text;
  std::vector<double> below(columns, 0);
  for (std::size_t part = 0; part < parts.size(); ++part) {
    std::string top, bottom;
    for (std::size_t i = 0; i < columns; ++i) {
      const double x = Frame::left + static_cast<double>(i);
      bottom.insert(0, fmt::format("{:.0f},{:.1f} ", x, frame.y(below[i])));
      below[i] += highest[i]->parts[part];
      top += fmt::format("{:.0f},{:.1f} ", x, frame.y(below[i]));
    }
    text += fmt::format("<polygon points=\"{}{}\" fill=\"{}\"><title>{}</title></polygon>\n", top,
                        bottom, colour_of(part), html_text(parts[part]));
  }
  figure(caption, parts, Frame::height, axes_of(frame, axes) + text);
}

void HtmlPage::points(const std::string& caption, const AxisNames& axes,
                      const std::vector<Point>& points) {
  std::vector<Point> shown;
  std::ranges::copy_if(points, std::back_inserter(shown), [](const Point& point) {
    return std::isfinite(point.x) && std::isfinite(point.y);
  });
  if (shown.empty()) return;
  const auto [left, right] = std::ranges::minmax(shown, {}, &Point::x);
  const auto [low, high] = std::ranges::minmax(shown, {}, &Point::y);
  Frame frame, across;
  set_ends(frame, low.y, high.y);
  set_ends(across, left.x, right.x);
  frame.first = across.lowest;
  frame.last = across.highest;
  std::string text = axes_of(frame, axes);
  for (const Point& point : shown)
    text += fmt::format(
        "<circle cx=\"{:.1f}\" cy=\"{:.1f}\" r=\"{}\" fill=\"{}\"><title>{}</title></circle>\n",
        frame.x(point.x), frame.y(point.y), point.marked ? 7 : 5, colour_of(point.marked ? 1 : 0),
        html_text(point.label));
  figure(caption, {}, Frame::height, text);
}

void HtmlPage::element(const std::string& html) { body_ += html; }

void HtmlPage::figure(const std::string& caption, const std::vector<std::string>& parts,
                      double height, const std::string& drawing) {
  std::string keys;
  for (std::size_t part = 0; part < parts.size(); ++part)
    keys += fmt::format("<span class=\"key\"><i style=\"background:{}\"></i>{}</span> ",
                        colour_of(part), html_text(parts[part]));
  body_ += fmt::format(
      "<figure><div class=\"keys\">{}</div><svg viewBox=\"0 0 {} {}\" role=\"img\" "
      "aria-label=\"{}\">\n{}</svg>\n"
      "<figcaption>{}</figcaption></figure>\n",
      keys, Frame::width, height, html_text(caption), drawing, html_text(caption));
}

std::string HtmlPage::text() const {
  std::string legend;
  for (const Meaning& each : meanings)
    legend += fmt::format("<dt>{}</dt><dd>{}</dd>\n", each.word, each.meaning);
  return fmt::format(
      "{}</section>\n<details class=\"card\"><summary>What the numbers are</summary>\n"
      "<dl class=\"facts\">\n{}</dl>\n</details>\n</main>\n</body>\n</html>\n",
      body_, legend);
}

void add_prediction(HtmlPage& page, const Model& model, const Compiled& compiled,
                    const Cluster& cluster, const Prediction& prediction) {
  const Prediction& p = prediction;
  page.heading("Plan");
  page.facts(
      {{"model", fmt::format("{}, {} parameters", model.name,
                             show_count(static_cast<double>(parameter_count(compiled.graph))))},
       {"cluster",
        fmt::format("{} x {}, {} ranks", cluster.hosts, cluster.machine.name, cluster.ranks())},
       {"plan", plan_text(compiled.plan)}});

  page.heading("Prediction");
  std::vector<HtmlPage::Fact> facts = {
      {"step time", show_seconds(p.step_time_s)},
      {"its range", p.interval
                        ? fmt::format("{} to {} with 80 % probability, by {} published steps on "
                                      "this kind of GPU",
                                      show_seconds(p.interval->low_s),
                                      show_seconds(p.interval->high_s), p.interval->rows)
                        : fmt::format("profile: {}; no error is known", name_of(p.calibration))},
      {"tokens/s", show_number(p.tokens_per_s, 0)},
      {"TFLOP/s per GPU", show_number(p.model_flops_per_s_per_gpu / 1e12, 1)},
      {"MFU", show_percent(p.mfu)},
      {"bubble", show_percent(p.bubble_fraction)},
      {"exposed communication", show_seconds(p.exposed_communication_s)},
      {"peak memory", peak_memory_text(compiled.plan, p) + (p.fits ? "" : ": does not fit")}};
  if (p.goodput)
    facts.push_back({"goodput", show_percent(p.goodput->share) + ": " + goodput_text(p)});
  if (p.usd_per_hour) facts.push_back({"cost per hour", fmt::format("${:.2f}", *p.usd_per_hour)});
  if (p.usd_per_million_tokens)
    facts.push_back({"cost per million tokens", fmt::format("${:.4f}", *p.usd_per_million_tokens)});
  page.facts(facts);

  page.heading("Memory of a GPU of each stage, by class");
  page.table(memory_table(p));
}

}  // namespace meshwright::tools
