#include "cortiq/pipeline/report.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <fstream>

#include "data_dirs.hpp"

namespace cortiq::pipeline {
namespace {

TensorReport gptq_tensor(const std::string& name, double error, double rtn_error) {
  TensorReport tensor;
  tensor.name = name;
  tensor.action = Action::kGptq;
  tensor.codec = "q4tp";
  tensor.rows = 32;
  tensor.cols = 64;
  tensor.bytes_in = 8192;
  tensor.bytes_out = 1200;
  tensor.hessian_rows = 999;
  tensor.lambda = 0.01;
  tensor.error = error;
  tensor.rtn_error = rtn_error;
  tensor.codes = std::vector<std::int64_t>(16, 4);
  return tensor;
}

RunReport sample() {
  RunReport report;
  report.command = "gptq";
  report.input = "in.cmf";
  report.output = "out.cmf";
  report.codec = "q4tp";
  report.options = cmf::Json{{"lambda", 0.01}};
  report.hessians = "captured";
  report.tensors.push_back(gptq_tensor("model.layers.0.a.weight", 1e-3, 2e-3));
  report.tensors.push_back(gptq_tensor("model.layers.1.a.weight", 1e-3, 8e-3));
  TensorReport missed;
  missed.name = "model.layers.1.b.weight";
  missed.action = Action::kGptq;
  missed.codec = "q4tp";
  missed.missed = true;
  missed.note = "no rows";
  report.tensors.push_back(missed);
  TensorReport copied;
  copied.name = "model.norm.weight";
  copied.codec = "f32";
  copied.note = "not a matrix";
  copied.sanitized = 3;
  report.tensors.push_back(copied);
  report.phases = {{"forward", 1.25}, {"solve", 0.5}};
  report.warnings = {"few tokens"};
  report.bytes_in = 100;
  report.bytes_out = 40;
  report.bits_per_weight = 5.8;
  report.layer_bits_per_weight = 4.25;
  report.perplexity_before = 10.0;
  report.perplexity_after = 10.5;
  return report;
}

std::string joined(const std::vector<std::string>& lines) {
  std::string text;
  for (const std::string& line : lines) text += line + "\n";
  return text;
}

std::size_t count_of(std::string_view text, std::string_view part) {
  std::size_t count = 0;
  for (std::size_t at = text.find(part); at != std::string_view::npos;
       at = text.find(part, at + part.size())) {
    ++count;
  }
  return count;
}

TEST(Report, CountsAndMeansCoverTheMeasuredTensors) {
  const RunReport report = sample();
  EXPECT_EQ(report.gptq_count(), 2);
  EXPECT_EQ(report.missed_count(), 1);
  EXPECT_NEAR(report.mean_error_ratio().value(), 0.25, 1e-12);  // sqrt(1/2 * 1/8)
  EXPECT_FALSE(RunReport{}.mean_error_ratio().has_value());
}

TEST(Report, ClosingTableHasARowPerTensorAndTheTotals) {
  const std::string text = joined(closing_table(sample()));
  for (const char* part :
       {"model.layers.0.a.weight", "model.layers.1.a.weight", "1.000e-03", "2.000e-03", "0.500",
        "0.250 (geometric mean of 2 matrices)",
        "missed: model.layers.1.b.weight was rounded: no rows",
        "sanitized: model.norm.weight: 3 non-finite", "warning: few tokens", "forward 1.2 s",
        "size 100 -> 40 bytes; 5.800 bits per weight in all, 4.250 in the matrices without embedding",
        "perplexity 10.000 -> 10.500"}) {
    EXPECT_NE(text.find(part), std::string::npos) << part << "\n" << text;
  }
}

TEST(Report, ClosingTableOfManyTensorsGroupsThemByKind) {
  RunReport report;
  for (int layer = 0; layer < 60; ++layer) {
    const std::string name = "model.layers." + std::to_string(layer) + ".mlp.up_proj.weight";
    report.tensors.push_back(gptq_tensor(name, 1e-3, 2e-3));
  }
  const std::vector<std::string> lines = closing_table(report);
  const std::string text = joined(lines);
  EXPECT_EQ(count_of(text, "model.layers.*.mlp.up_proj.weight"), 1U) << text;
  EXPECT_EQ(count_of(text, "model.layers.1"), 0U);
  EXPECT_LT(lines.size(), 10U);
}

TEST(Report, JsonHasTheFieldsOfTheRunAndOfEachTensor) {
  const cmf::Json json = report_json(sample());
  EXPECT_EQ(json["command"], "gptq");
  EXPECT_EQ(json["gptq_tensors"], 2);
  EXPECT_EQ(json["missed"], 1);
  EXPECT_NEAR(json["error_ratio_to_rounding"].get<double>(), 0.25, 1e-12);
  EXPECT_EQ(json["calibration"]["hessians"], "captured");
  EXPECT_EQ(json["perplexity"]["after"], 10.5);
  EXPECT_EQ(json["phases"][1]["name"], "solve");
  EXPECT_EQ(json["options"]["lambda"], 0.01);
  ASSERT_EQ(json["tensors"].size(), 4U);
  EXPECT_EQ(json["tensors"][0]["action"], "gptq");
  EXPECT_EQ(json["tensors"][0]["hessian_rows"], 999);
  EXPECT_EQ(json["tensors"][0]["codes"].size(), 16U);
  EXPECT_EQ(json["tensors"][0]["error"], 1e-3);
  EXPECT_EQ(json["tensors"][2]["missed"], true);
  EXPECT_TRUE(json["tensors"][2]["error"].is_null());
  EXPECT_EQ(json["tensors"][3]["action"], "copied");
  EXPECT_EQ(json["tensors"][3]["sanitized"], 3);
  EXPECT_FALSE(json["tensors"][3].contains("error"));
}

TEST(Report, JsonOfANonFiniteErrorIsNull) {
  RunReport report = sample();
  report.tensors[0].error = std::nan("");
  const cmf::Json back = cmf::Json::parse(report_json(report).dump());
  EXPECT_TRUE(back["tensors"][0]["error"].is_null());
}

TEST(Report, HtmlListsEveryTensorAndEscapesNames) {
  RunReport report = sample();
  report.tensors[1].name = "<script>alert('x')</script>&\"";
  report.input = "a<b>.cmf";
  report.warnings = {"1 < 2"};
  const std::string html = report_html(report);
  EXPECT_NE(html.find("model.layers.0.a.weight"), std::string::npos);
  EXPECT_NE(html.find("model.layers.1.b.weight"), std::string::npos);
  EXPECT_NE(html.find("model.norm.weight"), std::string::npos);
  EXPECT_NE(html.find("&lt;script&gt;alert("), std::string::npos);
  EXPECT_NE(html.find("a&lt;b&gt;.cmf"), std::string::npos);
  EXPECT_NE(html.find("1 &lt; 2"), std::string::npos);
  EXPECT_EQ(html.find("<script"), std::string::npos);
  EXPECT_EQ(html.find("http://"), html.find("http://www.w3.org"));
  EXPECT_EQ(count_of(html, "<tr"), 1 + report.tensors.size());
}

TEST(Report, HtmlOfAnEmptyRunIsAWholePage) {
  const std::string html = report_html(RunReport{});
  EXPECT_TRUE(html.starts_with("<!doctype html>"));
  EXPECT_TRUE(html.ends_with("</body></html>\n"));
}

TEST(Report, WritesBySuffixAndRefusesOthers) {
  const std::filesystem::path folder = test::scratch_dir("report");
  write_report(sample(), folder / "r.json");
  write_report(sample(), folder / "r.html");
  std::ifstream file(folder / "r.json");
  EXPECT_EQ(cmf::Json::parse(file)["tool"], "cortiq-quant");
  EXPECT_GT(std::filesystem::file_size(folder / "r.html"), 2000U);
  for (const char* name : {"r.txt", "r", "json"}) {
    try {
      write_report(sample(), folder / name);
      FAIL() << name;
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::kUsage) << name;
    }
  }
}

TEST(Report, NamesThatAreNotUtf8DoNotBreakTheJson) {
  RunReport report = sample();
  report.output = "bad\xff.cmf";
  const std::filesystem::path folder = test::scratch_dir("report_utf8");
  EXPECT_NO_THROW(write_report(report, folder / "r.json"));
}

}  // namespace
}  // namespace cortiq::pipeline
