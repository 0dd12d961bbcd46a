// report_svg.hpp: the charts of the HTML report as inline SVG. Colours come from the page's style
// sheet (classes c0…c7).
#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace cortiq::pipeline {

[[nodiscard]] std::string html_escape(std::string_view text);

/// One line per series over integer x (layers), y on a logarithmic axis. Missing points break
/// nothing: they are left out.
struct LineSeries {
  std::string name;
  std::vector<std::pair<double, double>> points;  ///< (x, y), y > 0
};
[[nodiscard]] std::string line_chart(const std::vector<LineSeries>& series,
                                     const std::string& x_label, const std::string& y_label);

/// Vertical bars with a label below and the share above.
[[nodiscard]] std::string bar_chart(const std::vector<std::pair<std::string, double>>& bars,
                                    const std::string& title);

/// One horizontal bar cut into labelled parts.
[[nodiscard]] std::string stacked_bar(const std::vector<std::pair<std::string, double>>& parts,
                                      const std::string& unit);

}  // namespace cortiq::pipeline
