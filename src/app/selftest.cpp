// cortiq-quant selftest: does the device compute what the host computes, and how fast.
#include <cmath>

#include "command.hpp"
#include "cortiq/pipeline/devices.hpp"
#include "model_options.hpp"

namespace cortiq::app {

namespace {

std::string measured(double value) {
  if (!std::isfinite(value)) return "none";
  const bool whole = value == std::floor(value) && std::fabs(value) < 1e6;
  return whole ? fmt::format("{:.0f}", value) : std::fabs(value) < 0.01 ? fmt::format("{:.2e}", value) : fmt::format("{:.5f}", value);
}

std::string speed_line(const device::SelftestSpeed& speed) {
  const auto tflops = [&](double ms) { return ms > 0 ? fmt::format("{:.3g}", speed.flops / ms * 1e-9) : std::string("-"); };
  const std::string clock = speed.device_ms > 0 ? fmt::format("{:.2f}", speed.device_ms) : std::string("-");
  return fmt::format("{:12} {:46} {:>9} ms {:>9.2f} ms {:>6} TFLOP/s   host {:>9.2f} ms {:>6} TFLOP/s\n", speed.path, speed.work, clock,
                     speed.wall_ms, tflops(speed.device_ms), speed.host_ms, tflops(speed.host_ms));
}

std::string text_of(const device::SelftestReport& report) {
  std::string text = fmt::format("{} ({})\n", report.device.name, report.device.driver);
  std::int64_t failures = 0;
  for (const device::SelftestLine& line : report.lines) {
    failures += line.passed() ? 0 : 1;
    text += fmt::format("{:4} {:12} {:82} {:>9} {} {}\n", line.passed() ? "ok" : "FAIL", line.path, line.property, measured(line.value),
                        line.at_least ? ">=" : "<=", measured(line.bound));
  }
  for (const std::string& problem : report.problems) text += fmt::format("FAIL {}\n", problem);
  if (!report.speeds.empty()) text += fmt::format("\n{:59} {:>12} {:>12}\n", "speed", "its clock", "with copies");
  for (const device::SelftestSpeed& speed : report.speeds) text += speed_line(speed);
  return text + fmt::format("\n{} of {} properties hold, {} parts failed, {:.0f} s: {}\n", std::ssize(report.lines) - failures,
                            report.lines.size(), report.problems.size(), report.seconds, report.passed() ? "passed" : "FAILED");
}

int selftest(const pipeline::DeviceOptions& options, bool json, const CommonOptions& common) {
  Session session(common);
  const auto reports = pipeline::run_selftest(options, session.context());
  bool passed = true;
  cmf::Json list = cmf::Json::array();
  for (const device::SelftestReport& report : reports) {
    passed = passed && report.passed();
    if (json)
      list.push_back(pipeline::selftest_json(report));
    else
      print(text_of(report));
  }
  if (json) print_json({{"passed", passed}, {"devices", list}});
  return passed ? 0 : 1;
}

}  // namespace

void add_selftest(CLI::App& app, const CommonOptions& common, Action& action) {
  CLI::App* command = app.add_subcommand("selftest", "Check a device against the host, and measure both");
  const auto options = std::make_shared<pipeline::DeviceOptions>();
  const auto json = std::make_shared<bool>(false);
  add_device_options(*command, *options);
  command->add_flag("--json", *json, "Result as JSON");
  command->callback([options, json, &common, &action] {
    action = [options, json, &common] { return selftest(*options, *json, common); };
  });
}

}  // namespace cortiq::app
