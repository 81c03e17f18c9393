// No password, token or key is written; settings that only sound so are.
#include "assay/env/secrets.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace assay::env {
namespace {

using testing::HasSubstr;
using testing::Not;

TEST(Secrets, NamesThatAlwaysHideTheirValue) {
  for (const char* name :
       {"WANDB_API_KEY", "HF_TOKEN", "GITHUB_TOKEN", "AWS_SECRET_ACCESS_KEY",
        "AWS_ACCESS_KEY_ID", "DB_PASSWORD", "db.password", "MYSQL_PWD",
        "CLIENT_SECRET", "GOOGLE_APPLICATION_CREDENTIALS", "wandb_api_key",
        "private-key", "PASSPHRASE"}) {
    const std::string shown = without_secrets(name, "hunter2-and-more");
    EXPECT_THAT(shown, Not(HasSubstr("hunter2"))) << name;
    EXPECT_EQ(shown, secret_mark("hunter2-and-more")) << name;
  }
  EXPECT_EQ(without_secrets("DB_PASSWORD", "123"), secret_mark("123"));
}

TEST(Secrets, SettingsOfModelsStay) {
  for (const auto& [name, value] :
       std::vector<std::pair<std::string, std::string>>{
           {"num_key_value_heads", "8"},
           {"eos_token_id", "2"},
           {"pad_token", "<pad>"},
           {"mask_token", "[MASK]"},
           {"max_tokens", "4096"},
           {"tokenizer_type", "Llama2Tokenizer"},
           {"key", "3"},
           {"calculate_per_token_loss", "true"},
           {"PWD", "/home/me"},
           {"TORCH_CUDA_ARCH_LIST", "9.0"}})
    EXPECT_EQ(without_secrets(name, value), value) << name;
}

TEST(Secrets, InsideOfValues) {
  const auto shown = [](const std::string& text) {
    return without_secrets("SETTING", text);
  };
  EXPECT_EQ(shown("https://me:pw123@host/x"),
            "https://" + secret_mark("me:pw123") + "@host/x");
  EXPECT_EQ(shown("https://me:a#b&c;d@host/x"),
            "https://" + secret_mark("me:a#b&c;d") + "@host/x");
  EXPECT_EQ(shown("password=ab#cd!"), "password=" + secret_mark("ab#cd!"));
  EXPECT_EQ(shown("https://host/x?a=1&sig=AbCdEf12345&b=2"),
            "https://host/x?a=1&sig=" + secret_mark("AbCdEf12345") + "&b=2");
  EXPECT_EQ(shown("user=a password=opensesame end"),
            "user=a password=" + secret_mark("opensesame") + " end");
  EXPECT_EQ(shown("{\"api_key\": \"abcdefgh12\"}"),
            "{\"api_key\": \"" + secret_mark("abcdefgh12") + "\"}");
  const std::string token = "hf_" + std::string(30, 'x');
  EXPECT_EQ(shown("--tok " + token), "--tok " + secret_mark(token));
  EXPECT_EQ(shown("/a/b:/c/d@e"), "/a/b:/c/d@e");
  EXPECT_EQ(shown("tcp://10.0.0.1:6000"), "tcp://10.0.0.1:6000");
}

TEST(Secrets, EverySpellingIsHiddenOnceForAll) {
  // Each has "SEKRET" in what must go, and "kept" in what may stay.
  const std::pair<const char*, const char*> cases[] = {
      {"A", "--api-key SEKRETabc --lr kept"},
      {"A", "--api-key 'SEKRET a' --lr kept"},
      {"A", "run --db.password SEKRET,1;2 kept"},
      {"A", "Authorization: Bearer SEKRETabc"},
      {"A", "authorization: basic SEKRETabc kept"},
      {"A", "kept bearer SEKRETabc"},
      {"PGPASSWORD", "SEKRETabc"},
      {"DB_PASS", "SEKRETabc"},
      {"hfToken", "SEKRETabc"},
      {"awssecretaccesskey", "SEKRETabc"},
      {"db.passwords", "SEKRETabc"},
      {"A", "password='a SEKRET;b SEKRET' kept"},
      {"A", "password=a,SEKRETb kept"},
      {"A", "password=a&SEKRETb&kept=1"},
      {"A", "token = SEKRETabc\nkept"},
      {"A", "{\"a\": {\"api_key\": \"x SEKRET y\"}, \"b\": \"kept\"}"},
      {"A", "User Id=kept;Password=SEKRETabc;"},
      {"A", "AccountKey=SEKRETabc==;kept=1"},
      {"A", "curl -u kept:SEKRET http://kept"},
      {"A", "postgres://u:SEKRET/x@kept/db"},
      {"A", "[hf_SEKRETabcdefghijkl0123456789]"},
      {"A", "x|ghp_SEKRETabcdefghijkl0123456789|kept"},
      {"A", "AIzaSEKRETabcdefghijklmnopqrstuvwxyz01234"},
      {"A", "ASIASEKRETABCDEFGH01"},
      {"A", "xapp-SEKRET-abcdefghijkl1"},
      {"A", "nvapi-SEKRETabcdefghijkl1"},
      {"A",
       "kept -----BEGIN RSA PRIVATE KEY-----\nSEKRET\n"
       "-----END RSA PRIVATE KEY----- kept"},
      {"A", "-----BEGIN KEY-----\nSEKRET"},
  };
  for (const auto& [key, value] : cases) {
    const std::string shown = without_secrets(key, value);
    EXPECT_THAT(shown, Not(HasSubstr("SEKRET"))) << value;
    EXPECT_THAT(shown, HasSubstr("#secret:")) << value;
    EXPECT_EQ(shown.find("kept") != shown.npos,
              std::string(value).find("kept") != std::string::npos)
        << shown;
    EXPECT_EQ(without_secrets(key, shown), shown);
  }
}

TEST(Secrets, TextsWithoutAnyStay) {
  for (const char* text :
       {"--tokenizer-model a.model --seq-length 4096", "http://h:8080/a@b",
        "train_tokens=300000000000", "pad_token: <pad>", "basic training",
        "/data/sk-learn-experiments-of-us/x", "a, b; c & d (e) [f]", "key: 1",
        "eos_token=true", "--user me", "forward:backward", "=", ":", "-", "--"})
    EXPECT_EQ(without_secrets("A", text), text);
}

TEST(Secrets, AMarkComparesAndStaysItself) {
  const std::string mark = secret_mark("one");
  EXPECT_EQ(mark, secret_mark("one"));
  EXPECT_NE(mark, secret_mark("two"));
  EXPECT_EQ(mark.size(), 14U);
  EXPECT_EQ(without_secrets("HF_TOKEN", mark), mark);
  const std::string url = without_secrets("A", "https://me:pw@h/");
  EXPECT_EQ(without_secrets("A", url), url);
}

TEST(Secrets, EverywhereInASnapshot) {
  Snapshot snapshot;
  snapshot[Section::kEnvironment].values["HF_TOKEN"] = {Kind::kText, "leak",
                                                        ""};
  snapshot[Section::kHyperparameters].values["wandb_api_key"] = {
      Kind::kNumber, "1234567890", ""};
  snapshot[Section::kSwitches].missing = {"get https://a:leak@b failed"};
  snapshot.draws.push_back({"f", "password=leak", "", -1});
  hide_secrets(snapshot);
  const std::string text = to_json(snapshot);
  EXPECT_THAT(text, Not(HasSubstr("leak")));
  EXPECT_THAT(text, Not(HasSubstr("1234567890")));
  parse_snapshot(text, "s");
}

}  // namespace
}  // namespace assay::env
