DROP TABLE locators;
DROP TABLE versions;
