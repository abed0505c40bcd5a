// Builds a self-contained HTML page of headings, paragraphs, facts, tables and figures (inline
// SVG), in the style of the page of `serve`. A list at its end explains the numbers. Only element()
// can add scripts.
#pragma once

#include <string>
#include <vector>

#include "hwprofiles/machine.h"
#include "models/architectures/model.h"
#include "sim/predict/predict.h"
#include "tools/session/step_values.h"
#include "tools/session/text.h"

namespace meshwright::tools {

// Returns the round numbers from `lowest` to `highest` at which an axis has its marks: multiples of
// 1, 2 or 5 times a power of ten, at most `most` + 1 of them. If `highest` is not above `lowest`,
// returns `lowest` only.
std::vector<double> axis_marks(double lowest, double highest, int most);

class HtmlPage {
 public:
  explicit HtmlPage(const std::string& title);
  void heading(const std::string& text);
  void paragraph(const std::string& text);
  struct Fact {
    std::string name, value;
  };
  void facts(const std::vector<Fact>& facts);
  void table(const Table& table);
  // Adds a curve over steps. Values that are not finite are left out. `axis` names the values and
  // their unit.
  void curve(const std::string& caption, const std::string& axis, const StepValues& values);
  // Adds a bar for each row, made of parts side by side. The longest bar is as wide as the picture
  // allows. If all parts are 0, adds nothing.
  struct Bar {
    std::string label;
    std::vector<double> parts;
  };
  void bars(const std::string& caption, const std::vector<std::string>& parts,
            const std::vector<Bar>& bars);
  // Adds areas on top of each other over x, from 0 to `end`. Values are constant from each point to
  // the next, and from the last one to `end`. Adds nothing if all values are 0.
  struct AreaPoint {
    double x = 0;
    std::vector<double> parts;
  };
  struct AxisNames {
    std::string x, y;
  };
  void areas(const std::string& caption, const AxisNames& axes,
             const std::vector<std::string>& parts, const std::vector<AreaPoint>& points,
             double end);
  // Adds a dot for each point, in a frame with both axes. A dot shows its label under the mouse
  // pointer. A marked dot is larger and of another colour. Points whose values are not finite are
  // left out.
  struct Point {
    std::string label;
    double x = 0, y = 0;
    bool marked = false;
  };
  void points(const std::string& caption, const AxisNames& axes, const std::vector<Point>& points);
  void element(const std::string& html);  // adds HTML unchanged
  std::string text() const;

 private:
  void figure(const std::string& caption, const std::vector<std::string>& parts, double height,
              const std::string& drawing);
  std::string body_;
};

// Adds the plan, its prediction, and the memory of each stage to a page.
void add_prediction(HtmlPage& page, const Model& model, const Compiled& compiled,
                    const Cluster& cluster, const Prediction& prediction);

}  // namespace meshwright::tools
