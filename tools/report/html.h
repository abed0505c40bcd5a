// A self-contained HTML page: headings, paragraphs, facts, tables and curves (inline SVG, no
// scripts), in the style of the page of `serve`; at its end, what the numbers are.
#pragma once

#include <string>

#include "hwprofiles/machine.h"
#include "models/architectures/model.h"
#include "sim/predict/predict.h"
#include "tools/report/step_values.h"
#include "tools/report/text.h"

namespace meshwright {

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
  // Over steps; what is not finite is left out.
  void curve(const std::string& caption, const StepValues& values);
  // A bar for each row, of parts beside each other; the longest is as wide as the picture.
  struct Bar {
    std::string label;
    std::vector<double> parts;
  };
  void bars(const std::string& caption, const std::vector<std::string>& parts,
            const std::vector<Bar>& bars);
  // Parts on top of each other over x, constant from each point to the next, the last one to `end`.
  struct AreaPoint {
    double x = 0;
    std::vector<double> parts;
  };
  void areas(const std::string& caption, const std::vector<std::string>& parts,
             const std::vector<AreaPoint>& points, double end);
  void element(const std::string& html);  // as it is
  std::string text() const;

 private:
  void figure(const std::string& caption, const std::vector<std::string>& parts, double height,
              const std::string& drawing);
  std::string body_;
};

// The plan, what is predicted of it, and the memory of each stage.
void add_prediction(HtmlPage& page, const Model& model, const Compiled& compiled,
                    const Cluster& cluster, const Prediction& prediction);

}  // namespace meshwright
