#include "tools/report/timeline_view.h"
#include "models/core/index.h"

#include <algorithm>
#include <array>
#include <map>
#include <nlohmann/json.hpp>
#include <tuple>

namespace meshwright {

using nlohmann::json;

namespace {

// What a span's colour says.
struct Sort {
  const char* name;
  const char* colour;
};
constexpr std::array<Sort, 9> sorts = {{{"forward", "#4c78a8"},
                                        {"recompute", "#b279a2"},
                                        {"backward", "#f58518"},
                                        {"step", "#9d755d"},
                                        {"tensor group", "#54a24b"},
                                        {"data and shards", "#e45756"},
                                        {"pipeline", "#eeca3b"},
                                        {"host copies", "#bab0ac"},
                                        {"context and experts", "#72b7b2"}}};

int sort_of(const Instruction& instruction, Body::Kind body) {
  switch (instruction.stream) {
    case Stream::compute:
      if (body == Body::Kind::step_begin || body == Body::Kind::step_end) return 3;
      return instruction.phase == Phase::forward     ? 0
             : instruction.phase == Phase::recompute ? 1
                                                     : 2;
    case Stream::tensor_comm:
      return 4;
    case Stream::shard_comm:
      return 5;
    case Stream::pipe_send:
    case Stream::pipe_recv:
      return 6;
    case Stream::copy_out:
    case Stream::copy_in:
      return 7;
    default:
      return 8;
  }
}

const char* name_of(Body::Kind kind) {
  switch (kind) {
    case Body::Kind::forward:
      return "forward";
    case Body::Kind::backward:
      return "backward";
    case Body::Kind::weights:
      return "weight gradients";
    case Body::Kind::step_begin:
      return "step begins";
    case Body::Kind::step_end:
      return "step ends";
    case Body::Kind::load:
      return "load";
  }
  return "";
}

// Words are said once: a span has their number.
class Words {
 public:
  int number_of(const std::string& word) {
    const auto [found, added] = numbers_.emplace(word, static_cast<int>(words_.size()));
    if (added) words_.push_back(word);
    return found->second;
  }
  const std::vector<std::string>& all() const { return words_; }

 private:
  std::map<std::string, int> numbers_;
  std::vector<std::string> words_;
};

constexpr const char* page = R"html(<figure id="timeline">
<div id="legend"></div>
<canvas id="lanes" height="10" role="img" aria-label="timeline"></canvas>
<p id="under">&nbsp;</p>
<figcaption>Wheel: zoom. Drag: move. Double click: the whole step. One rank for all that behave like it.</figcaption>
</figure>
)html";

constexpr const char* script = R"js(
const data = JSON.parse(document.getElementById('timeline-data').textContent);
const canvas = document.getElementById('lanes'), under = document.getElementById('under');
const pen = canvas.getContext('2d');
const label = 150, lane = 18, axis = 22;
let from = 0, to = data.step_us, wide = 0;
document.getElementById('legend').innerHTML = data.sorts.map(
    s => `<span class="key"><i style="background:${s[1]}"></i>${s[0]}</span>`).join(' ');
const x_of = t => label + (t - from) / (to - from) * (wide - label);
const t_of = x => from + (x - label) / (wide - label) * (to - from);
function draw() {
  wide = canvas.clientWidth || 800;
  const ratio = window.devicePixelRatio || 1, high = axis + lane * data.lanes.length;
  canvas.width = wide * ratio;
  canvas.height = high * ratio;
  canvas.style.height = high + 'px';
  pen.setTransform(ratio, 0, 0, ratio, 0, 0);
  pen.font = '11px sans-serif';
  let drawn = 0;
  data.lanes.forEach((each, i) => {
    const y = axis + i * lane;
    pen.fillStyle = i % 2 ? '#fff' : '#f4f4f4';
    pen.fillRect(0, y, wide, lane);
    let free = label;
    for (const [begin, length, name, sort] of each.spans) {
      if (begin + length < from || begin > to) continue;
      const left = Math.max(label, x_of(begin)), right = Math.min(wide, x_of(begin + length));
      if (right <= free && right - left < 0.5) continue;
      pen.fillStyle = data.sorts[sort][1];
      pen.fillRect(left, y + 2, Math.max(0.5, right - left), lane - 4);
      if (right - left > 60) {
        pen.fillStyle = '#fff';
        pen.save();
        pen.beginPath();
        pen.rect(left, y, right - left - 3, lane);
        pen.clip();
        pen.fillText(data.words[name], left + 3, y + 13);
        pen.restore();
      }
      free = right;
      ++drawn;
    }
    pen.fillStyle = '#222';
    pen.fillText(each.label, 2, y + 13);
  });
  pen.fillStyle = '#666';
  for (let i = 0; i <= 5; ++i) {
    const t = from + (to - from) * i / 5;
    pen.textAlign = i == 5 ? 'right' : i == 0 ? 'left' : 'center';
    pen.fillText((t / 1000).toPrecision(5) + ' ms', x_of(t), 14);
  }
  pen.textAlign = 'left';
  canvas.dataset.drawn = drawn;
}
function show(first, last) {
  const length = Math.min(data.step_us, Math.max(1e-3, last - first));
  from = Math.min(Math.max(0, first), data.step_us - length);
  to = from + length;
  draw();
}
canvas.addEventListener('wheel', event => {
  event.preventDefault();
  const t = t_of(event.offsetX), factor = event.deltaY < 0 ? 0.8 : 1.25;
  show(t - (t - from) * factor, t + (to - t) * factor);
}, {passive: false});
let held = null;
canvas.addEventListener('mousedown', event => held = {x: event.offsetX, from, to});
window.addEventListener('mouseup', () => held = null);
canvas.addEventListener('dblclick', () => show(0, data.step_us));
canvas.addEventListener('mousemove', event => {
  if (held) {
    const moved = (held.x - event.offsetX) / (wide - label) * (held.to - held.from);
    show(held.from + moved, held.to + moved);
    return;
  }
  const each = data.lanes[Math.floor((event.offsetY - axis) / lane)], t = t_of(event.offsetX);
  const span = each && each.spans.find(s => s[0] <= t && t <= s[0] + s[1]);
  under.textContent = span ? `${each.label}: ${data.words[span[2]]}` +
      (span[4] >= 0 ? `, micro-batch ${span[4]}` : '') +
      `, at ${(span[0] / 1000).toPrecision(6)} ms for ${span[1].toPrecision(4)} us` : '\u00a0';
});
window.addEventListener('resize', draw);
draw();
)js";

}  // namespace

std::string timeline_view(const Timeline& timeline, const std::vector<Program>& stages,
                          const std::vector<int>& stage_of_rank, std::size_t most_spans) {
  const bool by_task = timeline.entries.size() > most_spans;
  std::vector<TimelineEntry> entries = timeline.entries;
  std::sort(entries.begin(), entries.end(), [](const TimelineEntry& a, const TimelineEntry& b) {
    return std::tie(a.rank, a.begin, a.end) < std::tie(b.rank, b.begin, b.end);
  });
  Words words;
  std::map<std::pair<int, int>, json> lanes;             // by rank and stream
  std::map<std::pair<int, int>, int> task_of_last_span;  // of the lane
  SimTime step = 0;
  for (const TimelineEntry& entry : entries) {
    step = std::max(step, entry.end);
    const Program& program = stages[at(stage_of_rank[at(entry.rank)])];
    const Task& task = program.tasks[at(entry.task)];
    const Body& body = program.bodies[at(task.body)];
    const Instruction& instruction = body.instructions[at(entry.instruction)];
    const std::pair<int, int> lane{entry.rank, static_cast<int>(instruction.stream)};
    json& spans = lanes.emplace(lane, json::array()).first->second;
    const double begin = static_cast<double>(entry.begin) * 1e-6;
    const double length = static_cast<double>(entry.end - entry.begin) * 1e-6;
    const auto last_task = task_of_last_span.find(lane);
    if (by_task && last_task != task_of_last_span.end() && last_task->second == entry.task) {
      json& span = spans.back();
      span[1] = begin + length - span[0].get<double>();
      continue;
    }
    task_of_last_span[lane] = entry.task;
    const std::string name = by_task ? name_of(body.kind) : instruction_name(instruction, program);
    spans.push_back({begin, length, words.number_of(name), sort_of(instruction, body.kind),
                     task.micro_batch_index});
  }
  json data = {{"step_us", static_cast<double>(step) * 1e-6}, {"words", words.all()}};
  for (const Sort& sort : sorts) data["sorts"].push_back({sort.name, sort.colour});
  data["lanes"] = json::array();
  for (auto& [lane, spans] : lanes)
    data["lanes"].push_back({{"label", "rank " + std::to_string(lane.first) + "  " +
                                           std::string(name_of(static_cast<Stream>(lane.second)))},
                             {"spans", std::move(spans)}});
  std::string text = data.dump(-1, ' ', false, json::error_handler_t::replace);
  // "</script>" in a name would end the element.
  for (std::size_t found = 0; (found = text.find("</", found)) != std::string::npos; found += 3)
    text.replace(found, 2, "<\\/");
  return page + ("<script type=\"application/json\" id=\"timeline-data\">" + text +
                 "</script>\n<script>" + script + "</script>\n");
}

}  // namespace meshwright
