#include "cortiq/pipeline/report.hpp"

namespace cortiq::pipeline {

std::string report_html(const RunReport& report) {
  return "<!doctype html><title>" + report.output + "</title>";
}

}  // namespace cortiq::pipeline
