"""The procedure `restore`, and the judgement whether it can be done here."""
