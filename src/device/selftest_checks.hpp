// selftest_checks.hpp: the parts of the selftest. Each adds lines (or speeds) to the report.
#pragma once

#include <functional>
#include <string>

#include "cortiq/device/selftest.hpp"
#include "engine.hpp"
#include "selftest_problem.hpp"

namespace cortiq::device {

struct SelftestRun {
  const Engine& engine;
  Pool& pool;
  Log& log;
  const Interrupt& interrupt;
  SelftestReport& report;

  [[nodiscard]] std::string path() const { return engine.split() ? "cooperative" : "plain"; }
  void at_most(std::string property, double value, double bound) const {
    add({path(), std::move(property), value, bound, false});
  }
  void at_least(std::string property, double value, double bound) const {
    add({path(), std::move(property), value, bound, true});
  }

 private:
  void add(SelftestLine line) const {
    interrupt.check();
    log.debug("{}: {}: {:.3g}", line.path, line.property, line.value);
    report.lines.push_back(std::move(line));
  }
};

/// U, dead channels and damping of the fold: P14, P15.
void check_folds(const SelftestRun& run);
/// Output error of every option: P16, P17, P21, P22.
void check_sweeps(const SelftestRun& run);
/// Bytes: P34 and P35 below the backend, stacks of tensors.
void check_bytes(const SelftestRun& run);
/// P35 with several groups in flight, through make_device_backend with these options.
void check_groups_in_flight(const DeviceInfo& device, const BackendOptions& options, Pool& pool,
                            Log& log, SelftestReport& report);
/// Fold and sweep at sizes that host and device do in a few seconds.
void measure_speeds(const SelftestRun& run);

/// q4tp, q2tp with group order, simulated rungs… for messages.
[[nodiscard]] std::string describe_options(const gptq::SweepOptions& options);

}  // namespace cortiq::device
