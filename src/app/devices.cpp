// cortiq-quant devices: what this machine offers.
#include "command.hpp"
#include "cortiq/cmf/header.hpp"
#include "cortiq/support/memory.hpp"

namespace cortiq::app {

void add_devices(CLI::App& app, const CommonOptions& common, Action& action) {
  CLI::App* command = app.add_subcommand("devices", "Show what this machine offers");
  const auto json = std::make_shared<bool>(false);
  command->add_flag("--json", *json, "Result as JSON");
  command->callback([json, &common, &action] {
    action = [json, &common] {
      Session session(common);
      const Pool& pool = session.context().pool;
      const auto available = available_memory_bytes().value_or(0);
      const auto total = total_memory_bytes().value_or(0);
      if (*json) {
        print(cmf::Json{{"cpu",
                         {{"threads", pool.threads()},
                          {"kernels", simd_name(pool.simd())},
                          {"memory_bytes", total},
                          {"available_bytes", available}}}}
                  .dump() +
              "\n");
      } else {
        print(fmt::format("cpu: {} threads, {} kernels, {:.1f} of {:.1f} GB memory available\n",
                          pool.threads(), simd_name(pool.simd()),
                          static_cast<double>(available) / 1e9, static_cast<double>(total) / 1e9));
      }
      return 0;
    };
  });
}

}  // namespace cortiq::app
