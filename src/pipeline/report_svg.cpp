#include "report_svg.hpp"

#include "cortiq/support/error.hpp"

#include <algorithm>
#include <cmath>

namespace cortiq::pipeline {
namespace {

constexpr double kWidth = 860;
constexpr double kHeight = 320;
constexpr double kLeft = 70;
constexpr double kRight = 180;  // room for the legend
constexpr double kTop = 15;
constexpr double kBottom = 45;
constexpr std::size_t kColours = 8;

std::string text_at(double x, double y, std::string_view anchor, std::string_view text) {
  return fmt::format("<text x=\"{:.1f}\" y=\"{:.1f}\" text-anchor=\"{}\">{}</text>", x, y, anchor,
                     html_escape(text));
}

struct Frame {
  double x_low = 0;
  double x_high = 1;
  int decade_low = -1;
  int decade_high = 0;
  [[nodiscard]] double x(double value) const {
    return kLeft + (value - x_low) / std::max(x_high - x_low, 1.0) * (kWidth - kLeft - kRight);
  }
  [[nodiscard]] double y(double value) const {
    const double share = (std::log10(value) - decade_low) / std::max(decade_high - decade_low, 1);
    return kHeight - kBottom - share * (kHeight - kTop - kBottom);
  }
};

Frame frame_of(const std::vector<LineSeries>& series) {
  Frame frame;
  double low = 1e300;
  double high = 1e-300;
  frame.x_low = 1e300;
  frame.x_high = -1e300;
  for (const LineSeries& line : series) {
    for (const auto& [x, y] : line.points) {
      frame.x_low = std::min(frame.x_low, x);
      frame.x_high = std::max(frame.x_high, x);
      low = std::min(low, y);
      high = std::max(high, y);
    }
  }
  frame.decade_low = static_cast<int>(std::floor(std::log10(low)));
  frame.decade_high = std::max(static_cast<int>(std::ceil(std::log10(high))), frame.decade_low + 1);
  return frame;
}

std::string axes(const Frame& frame, const std::string& x_label, const std::string& y_label) {
  std::string svg;
  for (int decade = frame.decade_low; decade <= frame.decade_high; ++decade) {
    const double y = frame.y(std::pow(10.0, decade));
    svg += fmt::format(
        "<line class=\"grid\" x1=\"{:.1f}\" x2=\"{:.1f}\" y1=\"{:.1f}\" y2=\"{:.1f}\"/>", kLeft,
        kWidth - kRight, y, y);
    svg += text_at(kLeft - 6, y + 4, "end", fmt::format("1e{}", decade));
  }
  const double span = frame.x_high - frame.x_low;
  const double step = std::max(1.0, std::ceil(span / 12));
  for (double x = frame.x_low; x <= frame.x_high + 0.5; x += step) {
    svg += text_at(frame.x(x), kHeight - kBottom + 18, "middle", fmt::format("{:.0f}", x));
  }
  svg += text_at((kLeft + kWidth - kRight) / 2, kHeight - 8, "middle", x_label);
  svg += fmt::format(
      "<text transform=\"translate(14,{:.1f}) rotate(-90)\" text-anchor=\"middle\">{}</text>",
      kHeight / 2, html_escape(y_label));
  return svg;
}

std::string open_svg(double height, const std::string& label) {
  return fmt::format("<svg viewBox=\"0 0 {:.0f} {:.0f}\" role=\"img\" aria-label=\"{}\">", kWidth,
                     height, html_escape(label));
}

}  // namespace

std::string html_escape(std::string_view text) {
  std::string escaped;
  for (const char c : text) {
    switch (c) {
      case '&':
        escaped += "&amp;";
        break;
      case '<':
        escaped += "&lt;";
        break;
      case '>':
        escaped += "&gt;";
        break;
      case '"':
        escaped += "&quot;";
        break;
      default:
        escaped += c;
    }
  }
  return escaped;
}

std::string line_chart(const std::vector<LineSeries>& series, const std::string& x_label,
                       const std::string& y_label) {
  const bool empty = std::all_of(series.begin(), series.end(),
                                 [](const LineSeries& line) { return line.points.empty(); });
  if (empty) return "<p>No measured errors.</p>";
  const Frame frame = frame_of(series);
  std::string svg = open_svg(kHeight, y_label) + axes(frame, x_label, y_label);
  for (std::size_t i = 0; i < series.size(); ++i) {
    std::string path;
    std::string dots;
    for (const auto& [x, y] : series[i].points) {
      path += fmt::format("{:.1f},{:.1f} ", frame.x(x), frame.y(y));
      dots += fmt::format(
          "<circle cx=\"{:.1f}\" cy=\"{:.1f}\" r=\"3\"><title>{}, {} {:.0f}: "
          "{:.3e}</title></circle>",
          frame.x(x), frame.y(y), html_escape(series[i].name), html_escape(x_label), x, y);
    }
    const double legend = kTop + 12 + 18 * static_cast<double>(i);
    svg += fmt::format(
        "<g class=\"c{}\"><polyline points=\"{}\"/>{}<rect x=\"{:.0f}\" y=\"{:.1f}\" width=\"12\" "
        "height=\"4\"/></g>",
        i % kColours, path, dots, kWidth - kRight + 12, legend - 5);
    svg += text_at(kWidth - kRight + 30, legend, "start", series[i].name);
  }
  return svg + "</svg>";
}

std::string bar_chart(const std::vector<std::pair<std::string, double>>& bars,
                      const std::string& title) {
  constexpr double kBarHeight = 180;
  double total = 0;
  double most = 0;
  for (const auto& [name, value] : bars) {
    total += value;
    most = std::max(most, value);
  }
  if (!(total > 0)) return {};
  std::string svg = open_svg(kBarHeight + 50, title);
  const double pitch = (kWidth - 40) / static_cast<double>(bars.size());
  for (std::size_t i = 0; i < bars.size(); ++i) {
    const double height = bars[i].second / most * kBarHeight * 0.88;
    const double x = 20 + pitch * static_cast<double>(i);
    svg += fmt::format(
        "<g class=\"c0\"><rect x=\"{:.1f}\" y=\"{:.1f}\" width=\"{:.1f}\" "
        "height=\"{:.1f}\"><title>{}: {:.0f}</title></rect></g>",
        x + pitch * 0.1, kBarHeight + 15 - height, pitch * 0.8, height, html_escape(bars[i].first),
        bars[i].second);
    svg += text_at(x + pitch / 2, kBarHeight + 10 - height, "middle",
                   fmt::format("{:.1f} %", 100 * bars[i].second / total));
    svg += text_at(x + pitch / 2, kBarHeight + 32, "middle", bars[i].first);
  }
  return svg + "</svg>";
}

std::string stacked_bar(const std::vector<std::pair<std::string, double>>& parts,
                        const std::string& unit) {
  double total = 0;
  for (const auto& part : parts) total += part.second;
  if (!(total > 0)) return {};
  std::string svg = open_svg(50 + 20 * static_cast<double>(parts.size()), "time per phase");
  double x = 0;
  for (std::size_t i = 0; i < parts.size(); ++i) {
    const double width = parts[i].second / total * kWidth;
    const double y = 58 + 20 * static_cast<double>(i);
    svg += fmt::format(
        "<g class=\"c{}\"><rect x=\"{:.1f}\" y=\"5\" width=\"{:.1f}\" height=\"34\"/>"
        "<rect x=\"0\" y=\"{:.1f}\" width=\"12\" height=\"10\"/></g>",
        i % kColours, x, width, y - 9);
    svg += text_at(20, y, "start",
                   fmt::format("{}: {:.2f} {} ({:.1f} %)", parts[i].first, parts[i].second, unit,
                               100 * parts[i].second / total));
    x += width;
  }
  return svg + "</svg>";
}

}  // namespace cortiq::pipeline
