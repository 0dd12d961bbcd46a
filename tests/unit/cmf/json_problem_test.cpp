#include "cortiq/cmf/json_problem.hpp"

#include <gtest/gtest.h>

namespace cortiq::cmf {
namespace {

TEST(JsonProblem, sound_texts_have_none) {
  for (const char* text :
       {"{}", "[]", "1", R"("a")", "null", R"({"a":1,"b":{"a":2}})", R"([{"a":1},{"a":1}])",
        R"({"a":{"b":1},"c":{"b":1}})", R"({"a":1,"A":2,"":3})", R"([-1,2.5e3,true,[[]]])"}) {
    EXPECT_EQ(json_problem(text), "") << text;
  }
}

TEST(JsonProblem, keys_that_occur_twice_are_named_with_their_place) {
  EXPECT_EQ(json_problem(R"({"a":1,"b":2,"a":1})"), "key 'a' occurs twice");
  EXPECT_EQ(json_problem(R"({"":1,"":1})"), "key '' occurs twice");
  EXPECT_EQ(json_problem(R"({"options":{"tokens":1,"tokens":2}})"),
            "options: key 'tokens' occurs twice");
  EXPECT_EQ(json_problem(R"({"x":[1,{"y":{"z":1,"z":[]}}]})"), "x: y: key 'z' occurs twice");
  EXPECT_EQ(json_problem(R"([{"a":{}},{"a":1,"b":{},"a":1}])"), "key 'a' occurs twice");
  EXPECT_EQ(json_problem(R"({"a":1,"\u0061":2})"), "key 'a' occurs twice");
}

TEST(JsonProblem, what_is_no_json_is_named_with_its_position) {
  EXPECT_EQ(json_problem(""), "is no valid JSON (byte 1)");
  EXPECT_EQ(json_problem("{\"a\":1,}"), "is no valid JSON (byte 8)");
  EXPECT_EQ(json_problem("{} x"), "is no valid JSON (byte 4)");
  EXPECT_EQ(json_problem("\"\xff\""), "is no valid JSON (byte 2)");
}

TEST(JsonProblem, deep_nesting_is_refused_before_it_hurts) {
  const std::string deep = std::string(128, '[') + std::string(128, ']');
  EXPECT_EQ(json_problem(deep), "");
  EXPECT_EQ(json_problem("[" + deep + "]"), "is nested deeper than 128 levels");
  EXPECT_EQ(json_problem(std::string(1 << 20, '[')), "is nested deeper than 128 levels");
}

}  // namespace
}  // namespace cortiq::cmf
